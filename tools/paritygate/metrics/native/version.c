/* The version of this library's interface; kernel.py says the same. */
int pg_abi_version(void) { return 1; }
