//go:build !race && linux

package exec

const raced = false
