//go:build !linux

package confine

const socketFlags = 0
