//go:build !race && linux

package proc

const raced = false
