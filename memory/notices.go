package memory

// notices is a channel on which the system says that a state file changed; end
// gives it back. A nil channel is silent: the loop looks twice a second anyhow.
func (s *Store) notices() (edits <-chan struct{}, end func()) {
	return nil, func() {}
}
