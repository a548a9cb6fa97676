package render

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// contrast is that of a colour of the 256 with white and with black, 1 to 21.
func contrast(n int) (white, black float64) {
	cube := []float64{0, 95, 135, 175, 215, 255}
	rgb := [3]float64{}
	switch {
	case n == 1: // red, as most terminals have it
		rgb = [3]float64{205, 0, 0}
	case n < 16:
		return 0, 0 // the terminal's own
	case n >= 232:
		v := float64(8 + (n-232)*10)
		rgb = [3]float64{v, v, v}
	default:
		n -= 16
		rgb = [3]float64{cube[n/36], cube[n/6%6], cube[n%6]}
	}
	light := 0.0
	for i, weight := range []float64{.2126, .7152, .0722} {
		v := rgb[i] / 255
		if v <= .03928 {
			v /= 12.92
		} else {
			v = math.Pow((v+.055)/1.055, 2.4)
		}
		light += weight * v
	}
	return 1.05 / (light + .05), (light + .05) / .05
}

// TestColoursCanBeRead measures each colour that is written on the grounds that its
// theme is for.
func TestColoursCanBeRead(t *testing.T) {
	const code = "\n```go\n// c\nfunc f(a int) string { return \"x\\n\" + `y` + g(3.5, 'c', true, nil) }\n```\n\n```sh\nif [ -n \"$A\" ]; then echo 'x' | grep -v y; fi # c\n```\n\n```diff\n-a\n+b\n@@ 1 @@\n```\n\n```json\n{\"a\": [1, true, null]}\n```\n"
	number := regexp.MustCompile(`38;5;(\d+)`)
	for theme, least := range map[Theme]float64{ThemeLight: 4.5, ThemeBoth: 3.8} {
		r := New(Options{Width: 80, Theme: theme})
		text := whole(r, sample+code)
		for _, colour := range []string{"31", "32", "33", "36"} {
			text += r.paint(colour, "x")
		}
		if regexp.MustCompile(`\x1b\[(3[0-7]|9[0-7])m`).MatchString(text) {
			t.Errorf("theme %d: a colour of the terminal's own, made for a dark ground", theme)
		}
		seen := number.FindAllStringSubmatch(text, -1)
		if len(seen) < 10 {
			t.Errorf("theme %d: only %d colours in %q", theme, len(seen), text)
		}
		for _, m := range seen {
			n, _ := strconv.Atoi(m[1])
			if white, black := contrast(n); white < least || theme == ThemeBoth && black < least {
				t.Errorf("theme %d: colour %d has a contrast of %.1f on white and %.1f on black", theme, n, white, black)
			}
		}
	}
}
