package coordinator

import "ralph/coordinator/desk"

// Settings lists the settings that are in force, in the order of the table of
// keys, with where each came from; a secret is masked. The model is the one that
// would be asked now.
func (c *Coordinator) Settings() []desk.Setting {
	c.mu.Lock()
	model, chosen := c.endpoint.Model, c.chosen
	c.mu.Unlock()
	var list []desk.Setting
	for _, e := range c.cfg.Entries() {
		s := desk.Setting{Name: e.Key.Name, Value: e.Value, Origin: e.Origin.String(), Help: e.Key.Help}
		if s.Name == "model" && chosen {
			s.Value, s.Origin = model, "chosen in this conversation"
		}
		list = append(list, s)
	}
	return list
}
