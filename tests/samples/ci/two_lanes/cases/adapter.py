"""An adapter with a helper beside it; never run."""

import helper

run = helper.run
