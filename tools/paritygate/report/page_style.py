"""The style sheet of the page: light and dark by the reader's own setting, nothing fetched."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--dim:#667085;--line:#e3e7ee;--card:#fff;--back:#f4f6fa;--good:#137a46;
--bad:#c0282d;--accent:#2f62d9;--soft:#eef2fb}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--dim:#98a2b3;--line:#2d3442;--card:#1a1f2a;--back:#11151d;
--good:#4cc38a;--bad:#ff7b7f;--accent:#86a9ff;--soft:#222a3a}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 48px}
header{display:flex;gap:18px;align-items:center;margin-bottom:14px}
h1{font-size:24px;margin:0;overflow-wrap:anywhere;line-height:1.25}
h2{font-size:17px;margin:0 0 12px;overflow-wrap:anywhere}
h2 small{color:var(--dim);font-weight:400;margin-left:4px}
h3{font-size:14px;font-weight:600;margin:14px 0 8px}
p{margin:2px 0}
.dim,footer{color:var(--dim)}
.state{padding:8px 16px;border-radius:999px;font-weight:650;color:#fff;background:#667085;letter-spacing:.02em}
.state.passed{background:#137a46}.state.failed,.state.invalid{background:#c0282d}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin:16px 0}
.bad-box{border-left:4px solid var(--bad)}
.sides{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:0 0 4px}
.sides dt{color:var(--dim)}.sides dd{margin:0;overflow-wrap:anywhere;font-family:ui-monospace,monospace;font-size:13px}
ul{margin:0;padding-left:20px}li{overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{text-align:left;color:var(--dim);font-weight:500;border-bottom:1px solid var(--line);padding:5px 14px 5px 0}
td{border-bottom:1px solid var(--line);padding:5px 14px 5px 0;vertical-align:top;overflow-wrap:anywhere}
tr:last-child td{border-bottom:0}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code{font:12.5px ui-monospace,monospace}
details{margin-top:12px}summary{cursor:pointer;color:var(--dim);font-size:13.5px;margin-bottom:6px}
.trio{display:grid;grid-template-columns:repeat(3,1fr);gap:12px}
figure{margin:0}figure svg{width:100%;height:auto;display:block;border-radius:6px;background:var(--soft)}
.small image{image-rendering:pixelated}
figcaption{color:var(--dim);font-size:13px;margin-top:4px}
.tile{fill:none;stroke:#ff2d78;stroke-width:2;vector-effect:non-scaling-stroke}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:14px;margin-top:14px}
.plots:empty{display:none}
.plot{width:100%;height:auto;display:block}
.plot text{font:11px system-ui,sans-serif;fill:var(--dim)}
.plot .title{font-size:13px;font-weight:600;fill:var(--ink)}
.plot .axis{stroke:var(--line);fill:none}.plot .curve{stroke:var(--accent);stroke-width:1.6;fill:none}
.plot .dot{fill:var(--accent)}.plot .worst{fill:var(--bad)}.plot .label{fill:var(--bad);font-weight:600}
.plot .limit{stroke:var(--bad);stroke-dasharray:5 4;fill:none}
@media(max-width:640px){.trio,.plots{grid-template-columns:1fr}}
footer{font-size:13px;margin-top:20px}
"""
