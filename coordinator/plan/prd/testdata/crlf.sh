#!/bin/sh
# Makes the issues of a PRD with bd. Run it where the database is, once.
set -eu
export BEADS_NO_DAEMON=1

# US-1
i1=$(bd create --title 'Grüßen' --type task --priority 2 --external-ref US-1 --description 'Grüßen' --acceptance '- [ ] sagt Hallo' --silent)

# US-2
i2=$(bd create --title Gehen --type task --priority 2 --external-ref US-2 --description Gehen --acceptance '- [ ] Given a door When I go
- [ ] Then I am out' --deps "$i1" --silent)
