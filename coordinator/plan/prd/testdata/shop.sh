#!/bin/sh
# Makes the issues of a PRD with bd. Run it where the database is, once.
set -eu
export BEADS_NO_DAEMON=1

# EPIC-7
i1=$(bd create --title Checkout --type epic --priority 2 --external-ref EPIC-7 --description 'Everything about paying.' --silent)

# US-001
i2=$(bd create --title 'Store hats' --type task --priority 1 --external-ref US-001 --description 'As a clerk, I want hats stored,
so that they can be sold.

```sh
### US-099: not a story
- [ ] not a criterion
**Priority:** P0
```' --acceptance '- [x] a hat is stored
- [x] tests pass' --notes 'Check: go test ./... && golangci-lint run' --silent)
bd close "$i2" --reason 'done already'

# Feature-1.2
i3=$(bd create --title Cart --type task --priority 3 --external-ref Feature-1.2 --description '| a | b |
|---|---|' --acceptance '- [ ] a hat goes into the cart
- [ ] Status: 200 is returned' --notes 'Check: go test ./... && golangci-lint run' --parent "$i1" --silent)

# US-002
i4=$(bd create --title 'Show hats' --type task --priority 1 --external-ref US-002 --description 'As a **buyer**, I see hats.' --acceptance '- [ ] a list is shown that has prices
- [x] with a picture
- [ ] and a name
- [ ] sorted by name
- [ ] fast' --notes 'Check: go test ./... && golangci-lint run' --labels 'ui,shop' --deps "$i2"','"$i3" --silent)

# US-2.1.1
i5=$(bd create --title Pay --type task --priority 2 --external-ref US-2.1.1 --description '##### US-500: too deep' --acceptance '- [x] it can be paid
- [x] of the one above' --notes 'mind the tax
and the tip

Check: go test ./pay && go test ./... && golangci-lint run' --parent "$i1" --deps "$i4" --silent)
bd close "$i5" --reason 'done already'
