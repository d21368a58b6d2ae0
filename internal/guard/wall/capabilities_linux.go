package wall

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// How a file is opened only to change its owner.
const (
	openPath  = unix.O_PATH
	emptyPath = unix.AT_EMPTY_PATH
)

// missingCapabilities names what the supervisor needs to run, watch and end processes of others and to hand them folders.
func missingCapabilities() []string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return []string{fmt.Sprintf("the list of its capabilities (%v)", err)}
	}
	var out []string
	for _, need := range []struct {
		bit  int
		name string
	}{
		{unix.CAP_SETUID, "CAP_SETUID"},
		{unix.CAP_SETGID, "CAP_SETGID"},
		{unix.CAP_CHOWN, "CAP_CHOWN"},
		{unix.CAP_FOWNER, "CAP_FOWNER"},
		{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
		{unix.CAP_KILL, "CAP_KILL"},
		{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
	} {
		if data[0].Effective&(1<<need.bit) == 0 {
			out = append(out, need.name)
		}
	}
	return out
}
