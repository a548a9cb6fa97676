package line

// Ring sends bytes that draw nothing, such as a bell or a notification, once the
// terminal is not lent to a picker. What they mean is the caller's affair.
func (t *Term) Ring(bytes string) {
	t.mu.Lock()
	t.rings += bytes
	t.mu.Unlock()
	t.signal()
}

// ring sends what is to be rung.
func (t *Term) ring() {
	t.mu.Lock()
	bytes := t.rings
	if t.modal != nil {
		bytes = ""
	} else {
		t.rings = ""
	}
	t.mu.Unlock()
	t.write(bytes)
}

// Ring sends bytes that draw nothing to somebody who types; a pipe gets none.
func (p *Plain) Ring(bytes string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tty {
		p.write(bytes)
	}
}
