package scripts

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"ralph/memory/notice"
	"ralph/workers/agent"
)

const (
	// drawEvery bounds how often a picture is drawn: 10 times a second.
	drawEvery = 100 * time.Millisecond
	// askEvery is how often the one that is watched is asked though nothing was heard.
	askEvery = time.Second
	// maxPicture bounds the rows of a picture.
	maxPicture = 40
)

// eye is what shows how things stand: as a picture, or a document.
type eye interface {
	// show brings out a document that may have changed; last says that no other
	// comes.
	show(m *monitor, d statusDocument, last bool) error
	// still says that nothing changed: what shows the time goes on.
	still(m *monitor) error
}

// picture draws in place until the session is over or the person leaves.
func (m *monitor) picture(ctx context.Context) error {
	inv := m.inv
	f, ok := inv.out.w.(*os.File)
	p := &pictureEye{colour: true, now: inv.Now, area: area{w: inv.out}}
	if ok {
		p.area.width = func() int { w, _ := sizeOf(f); return w }
		p.area.height = func() int { _, h := sizeOf(f); return h }
	}
	return m.watch(ctx, p)
}

// watch shows how things stand, and each change, until nothing can change any more.
func (m *monitor) watch(ctx context.Context, e eye) error {
	d, err := m.document(ctx)
	if err != nil {
		return err
	}
	if m.over() {
		return e.show(m, d, true)
	}
	if err := e.show(m, d, false); err != nil {
		return err
	}
	var k *keys
	if _, is := e.(*pictureEye); is {
		k = openKeys(ctx, m.inv.Stdin)
		defer k.close()
	}
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	defer signal.Stop(woken)
	told, end := m.written()
	defer func() { end() }()
	l := &look{m: m, eye: e, asked: m.inv.Now()}
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return leave(e, context.Cause(ctx))
		case key := <-k.channel():
			if key == 'q' || key == 'Q' {
				return leave(e, nil)
			}
		case raw := <-m.heard():
			l.hear(raw)
		case <-m.silent():
			if err := m.ended(ctx); err != nil {
				return leave(e, err)
			}
			l.dirty = true
			end()
			told, end = m.written()
		case <-woken:
			k.again()
			if p, is := e.(*pictureEye); is {
				p.forget()
			}
			l.dirty = true
		case _, ok := <-told:
			if !ok {
				told = nil
			}
			l.dirty = true
		case <-tick.C:
			if over, err := l.tick(ctx); err != nil || over {
				return err
			}
		}
	}
}

// leave ends a picture at the person's word: what is on the screen stays there.
func leave(e eye, err error) error {
	if p, is := e.(*pictureEye); is {
		p.close()
	}
	return err
}

// heard is where events come, silent where their end is told; without a feed both
// are nil, and say nothing.
func (m *monitor) heard() <-chan json.RawMessage {
	if m.feed == nil {
		return nil
	}
	return m.feed.events
}

func (m *monitor) silent() <-chan struct{} {
	// What was heard comes first.
	if m.feed == nil || len(m.feed.events) > 0 {
		return nil
	}
	return m.feed.done
}

// written tells of changes of the files of a session that is read from them.
func (m *monitor) written() (told <-chan struct{}, end func()) {
	if m.caller != nil || m.session.dir == "" {
		return nil, func() {}
	}
	names := []string{"execution-log.json", "journal.jsonl", "session-metadata.yaml", "progress-tracking.yaml"}
	return notice.Watch(m.session.dir, func(name string) bool { return slices.Contains(names, name) })
}

// look paces the looks at what is watched.
type look struct {
	m     *monitor
	eye   eye
	dirty bool
	asked time.Time
	pause time.Duration // after the last look, which took long
}

func (l *look) hear(raw json.RawMessage) {
	_ = events(func(_ json.RawMessage, e agent.Event) error { // what is no event says nothing
		if l.m.recent.hear(e, l.m.inv.Now) || e.Type != agent.EventMessageDelta && e.Type != agent.EventReasoning {
			l.dirty = true
		}
		return nil
	})(raw)
}

// tick shows what has changed since the last one; over says that no more changes.
func (l *look) tick(ctx context.Context) (over bool, err error) {
	now := l.m.inv.Now()
	since := now.Sub(l.asked)
	l.m.inv.out.look()
	if since < l.pause || !l.dirty && since < askEvery {
		return false, l.eye.still(l.m)
	}
	over = l.m.over()
	if over {
		if err := l.m.again(); err != nil { // it was moved to the archive, or is gone
			return true, leave(l.eye, err)
		}
	}
	d, err := l.m.document(ctx)
	if err != nil {
		return false, leave(l.eye, err)
	}
	l.dirty, l.asked = false, l.m.inv.Now()
	// To read a long session again and again is not to take more than a tenth of
	// the machine.
	l.pause = min(10*l.asked.Sub(now), time.Minute)
	return over, l.eye.show(l.m, d, over)
}

// documentEye prints a status document for each change.
type documentEye struct {
	out  *output
	last string
}

func (e *documentEye) show(_ *monitor, d statusDocument, _ bool) error {
	line, err := encode(d)
	if err != nil {
		return broken("internal", "", err, "encode the document")
	}
	if string(line) == e.last {
		return nil
	}
	e.last = string(line)
	return e.out.print(e.last + "\n")
}

func (e *documentEye) still(*monitor) error { return nil }

// pictureEye draws the picture in place. Nothing is written when nothing changed.
type pictureEye struct {
	colour bool
	now    func() time.Time
	area   area
	doc    statusDocument
	drawn  []string
	size   [2]int // for which it was drawn
	at     time.Time
}

func (p *pictureEye) show(m *monitor, d statusDocument, last bool) error {
	p.doc = d
	p.draw(m)
	if last {
		p.close()
	}
	return m.inv.out.trouble()
}

// still draws again what only the time has changed, and what the window has.
func (p *pictureEye) still(m *monitor) error {
	if p.now().Sub(p.at) >= time.Second || p.size != p.sized() {
		p.draw(m)
	}
	return m.inv.out.trouble()
}

func (p *pictureEye) sized() [2]int { return [2]int{p.area.columns(), p.area.rows(maxPicture)} }

func (p *pictureEye) draw(m *monitor) {
	p.at = p.now()
	size := p.sized()
	paint := picture{doc: p.doc, recent: m.recent.list, now: p.at, colour: p.colour, mute: m.mute}
	lines := paint.lines(max(size[0], 10), size[1])
	if size == p.size && slices.Equal(lines, p.drawn) {
		return
	}
	p.size, p.drawn = size, lines
	p.area.draw(lines)
}

// forget draws anew below what somebody else wrote meanwhile.
func (p *pictureEye) forget() { p.area.drawn, p.drawn = nil, nil }

// close leaves the picture on the screen, and the cursor below it.
func (p *pictureEye) close() {
	if len(p.area.drawn) > 0 {
		_, _ = p.area.w.Write([]byte("\n")) // a terminal that is gone takes nothing
		p.area.drawn = nil
	}
}
