package pick

import (
	"bytes"
	"io"
	"strconv"
	"sync/atomic"

	prompt "github.com/c-bata/go-prompt"
)

// console is go-prompt's writer. It never clears the screen and leaves the
// window's title alone. What is flushed after muted is set is dropped, so that
// the cursor stays in the row of the input. One goroutine writes; muted may be
// set from another.
type console struct {
	out    io.Writer
	colour bool
	buf    []byte
	muted  atomic.Bool
	// rewind says that frames were dropped, so that the cursor is elsewhere in its row
	// than go-prompt believes.
	rewind bool
	// painted says that the last key was dealt with: every key ends in a flush.
	painted atomic.Bool
}

var _ prompt.ConsoleWriter = (*console)(nil)

// WriteRaw adds bytes as they are.
func (c *console) WriteRaw(data []byte) { c.buf = append(c.buf, data...) }

// Write adds text without control sequences.
func (c *console) Write(data []byte) {
	c.WriteRaw(bytes.ReplaceAll(data, []byte{0x1b}, []byte{'?'}))
}

// WriteRawStr adds a string as it is.
func (c *console) WriteRawStr(data string) { c.buf = append(c.buf, data...) }

// WriteStr adds text without control sequences.
func (c *console) WriteStr(data string) { c.Write([]byte(data)) }

// Flush writes what was added, in one piece.
func (c *console) Flush() error {
	defer c.painted.Store(true)
	b := c.buf
	c.buf = nil
	if c.muted.Load() || len(b) == 0 {
		return nil
	}
	if c.rewind {
		c.rewind = false
		b = append([]byte("\r"), b...)
	}
	_, err := c.out.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")))
	return err
}

// unmute lets what is flushed from now on be written. It is called between two
// flushes, when what was flushed is painted.
func (c *console) unmute() {
	c.rewind = c.rewind || c.muted.Load()
	c.muted.Store(false)
}

func (c *console) csi(n int, final string) {
	c.buf = append(c.buf, 0x1b, '[')
	if n > 0 {
		c.buf = strconv.AppendInt(c.buf, int64(n), 10)
	}
	c.buf = append(c.buf, final...)
}

// EraseScreen does nothing.
func (c *console) EraseScreen() {}

// EraseUp does nothing.
func (c *console) EraseUp() {}

// EraseDown erases what is below and right of the cursor.
func (c *console) EraseDown() { c.csi(0, "J") }

// EraseStartOfLine erases what is left of the cursor.
func (c *console) EraseStartOfLine() { c.csi(1, "K") }

// EraseEndOfLine erases what is right of the cursor.
func (c *console) EraseEndOfLine() { c.csi(0, "K") }

// EraseLine erases the row of the cursor.
func (c *console) EraseLine() { c.csi(2, "K") }

// ShowCursor shows the cursor.
func (c *console) ShowCursor() { c.csi(0, "?25h") }

// HideCursor hides the cursor.
func (c *console) HideCursor() { c.csi(0, "?25l") }

// CursorGoTo does nothing: only the message about a small window uses it.
func (c *console) CursorGoTo(int, int) {}

// CursorUp moves the cursor.
func (c *console) CursorUp(n int) { c.move(n, "A", "B") }

// CursorDown moves the cursor.
func (c *console) CursorDown(n int) { c.move(n, "B", "A") }

// CursorForward moves the cursor.
func (c *console) CursorForward(n int) { c.move(n, "C", "D") }

// CursorBackward moves the cursor.
func (c *console) CursorBackward(n int) { c.move(n, "D", "C") }

func (c *console) move(n int, forth, back string) {
	switch {
	case n > 0:
		c.csi(n, forth)
	case n < 0:
		c.csi(-n, back)
	}
}

// AskForCPR does nothing: nobody would read the answer.
func (c *console) AskForCPR() {}

// SaveCursor saves the place of the cursor.
func (c *console) SaveCursor() { c.csi(0, "s") }

// UnSaveCursor goes back to the saved place.
func (c *console) UnSaveCursor() { c.csi(0, "u") }

// ScrollDown moves the cursor down, scrolling at the last row.
func (c *console) ScrollDown() { c.WriteRawStr("\x1bD") }

// ScrollUp moves the cursor up, scrolling at the first row.
func (c *console) ScrollUp() { c.WriteRawStr("\x1bM") }

// SetTitle does nothing.
func (c *console) SetTitle(string) {}

// ClearTitle does nothing.
func (c *console) ClearTitle() {}

// SetColor sets the colours of the text that follows; without colours only the
// selected item stands out, in reverse.
func (c *console) SetColor(fg, bg prompt.Color, bold bool) {
	c.WriteRawStr("\x1b[0")
	if !c.colour {
		if bg == prompt.Cyan {
			c.WriteRawStr(";7")
		}
		c.WriteRawStr("m")
		return
	}
	if bold && fg != prompt.Black { // many terminals show bold black as grey, which nobody can read on a colour
		c.WriteRawStr(";1")
	}
	if n := colourNumber(fg); n > 0 {
		c.WriteRawStr(";" + strconv.Itoa(n))
	}
	if n := colourNumber(bg); n > 0 {
		c.WriteRawStr(";" + strconv.Itoa(n+10))
	}
	c.WriteRawStr("m")
}

// colourNumber is the foreground number of the few colours that the menu uses,
// 0 for the terminal's own.
func colourNumber(c prompt.Color) int {
	switch c {
	case prompt.Black:
		return 30
	case prompt.Green:
		return 32
	case prompt.Cyan:
		return 36
	case prompt.White:
		return 37
	case prompt.DarkGray:
		return 90
	}
	return 0
}
