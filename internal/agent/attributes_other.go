//go:build !linux

package agent

import "syscall"

func attributes(who *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: who}
}

func startIn(*syscall.SysProcAttr, int) {}
