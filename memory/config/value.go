package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/memory/text"
)

// parse sets *ptr, a pointer that k.field gave, from values as a user wrote
// them. Of several values of a scalar the last one counts. On error *ptr is
// unchanged.
func parse(k Key, ptr any, values []string) error {
	if list, ok := ptr.(*[]string); ok {
		for _, path := range values {
			if rest, home := strings.CutPrefix(path, "~/"); k.paths && strings.TrimSpace(path) != "" &&
				(!home && !filepath.IsAbs(path) || filepath.Clean("/"+rest) == "/" && !home || strings.ContainsRune(path, 0)) {
				return fmt.Errorf("%q is not a path of a file or directory; write it as /dir/name or ~/name", path)
			}
		}
		*list = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return strings.TrimSpace(s) == "" })
		return nil
	}
	if len(values) == 0 {
		return errors.New("has no value")
	}
	text := values[len(values)-1]
	if p, ok := ptr.(*string); ok {
		return parseText(k, p, text)
	}
	return parseNumber(k, ptr, strings.TrimSpace(text))
}

func parseText(k Key, p *string, content string) error {
	if k.Kind == KindEnum && content != k.Default && !slices.Contains(k.Values, content) {
		if word := text.Closest(content, k.Values); word != "" {
			return fmt.Errorf("%q is not one of %s; did you mean %q?", content, strings.Join(k.Values, ", "), word)
		}
		return fmt.Errorf("%q is not one of %s", content, strings.Join(k.Values, ", "))
	}
	if strings.ContainsRune(content, 0) {
		return errors.New("holds a NUL byte")
	}
	*p = content
	return nil
}

func parseNumber(k Key, ptr any, text string) error {
	var err error
	switch p := ptr.(type) {
	case *bool:
		var v bool
		if v, err = parseBool(text); err == nil {
			*p = v
		}
	case *int:
		var v int
		if v, err = strconv.Atoi(strings.ReplaceAll(text, "_", "")); err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		if err = k.inRange(float64(v)); err == nil {
			*p = v
		}
	case *float64:
		v, perr := strconv.ParseFloat(text, 64)
		if perr != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%q is not a number", text)
		}
		if err = k.inRange(v); err == nil {
			*p = v
		}
	case *time.Duration:
		var v time.Duration
		if v, err = parseDuration(text); err == nil {
			*p = v
		}
	case *int64:
		var v int64
		if v, err = parseBytes(text); err == nil {
			*p = v
		}
	}
	return err
}

// inRange checks the bounds of k; without bounds a number must not be negative.
func (k Key) inRange(v float64) error {
	lo := 0.0
	if k.min != nil {
		lo = *k.min
	}
	if v < lo || k.max != nil && v > *k.max {
		if k.max != nil {
			return fmt.Errorf("%v is not between %v and %v", v, lo, *k.max)
		}
		return fmt.Errorf("%v is less than %v", v, lo)
	}
	return nil
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

// parseDuration reads Go's durations, and whole days and weeks: 90s, 1h30m,
// 180d, 2w. A bare number other than 0 has no unit and is refused.
func parseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit: write %ss or %sm", text, text, text)
	}
	unit := 24 * time.Hour
	digits, isDays := strings.CutSuffix(text, "d")
	if weeks, ok := strings.CutSuffix(text, "w"); ok {
		digits, isDays, unit = weeks, true, 7*unit
	}
	if n, err := strconv.Atoi(digits); isDays && err == nil {
		if n < 0 || int64(n) > math.MaxInt64/int64(unit) {
			return 0, fmt.Errorf("%q is out of range", text)
		}
		return time.Duration(n) * unit, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration like 90s, 10m, 2h or 180d", text)
	}
	return d, nil
}

// parseBytes reads a size: 1048576, 512KiB, 1.5GiB, 1GB. K, M, G, T alone mean
// the binary units.
func parseBytes(text string) (int64, error) {
	bad := fmt.Errorf("%q is not a size like 512MiB or 1GB", text)
	digits := strings.TrimRight(text, "KMGTkmgtiIbB ")
	var factor float64
	switch strings.ToLower(strings.TrimSpace(text[len(digits):])) {
	case "", "b":
		factor = 1
	case "k", "ki", "kib":
		factor = 1 << 10
	case "m", "mi", "mib":
		factor = 1 << 20
	case "g", "gi", "gib":
		factor = 1 << 30
	case "t", "ti", "tib":
		factor = 1 << 40
	case "kb":
		factor = 1e3
	case "mb":
		factor = 1e6
	case "gb":
		factor = 1e9
	case "tb":
		factor = 1e12
	default:
		return 0, bad
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n*factor > math.MaxInt64/2 {
		return 0, bad
	}
	return int64(n * factor), nil
}

// show renders what a field of Settings points to, as a user would write it.
func show(ptr any) string {
	switch p := ptr.(type) {
	case *string:
		return *p
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return strconv.Itoa(*p)
	case *int64:
		return showBytes(*p)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *time.Duration:
		return showDuration(*p)
	case *[]string:
		return strings.Join(*p, "\n")
	}
	return ""
}

func showDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func showBytes(n int64) string {
	units := []string{"", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}
