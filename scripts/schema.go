package scripts

import (
	_ "embed"
)

// The JSON Schemas of what this face writes, draft 2020-12. Consumers must
// expect fields that they do not know.
var (
	//go:embed result.schema.json
	resultSchema string
	//go:embed events.schema.json
	eventsSchema string
	//go:embed status.schema.json
	statusSchema string
)
