package agent

import "syscall"

// attributes of the program of a session: it ends if its supervisor dies.
func attributes(who *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT, Credential: who}
}

// startIn starts the program in the control group whose folder is open.
func startIn(attr *syscall.SysProcAttr, folder int) { attr.UseCgroupFD, attr.CgroupFD = true, folder }
