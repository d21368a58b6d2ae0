package agent

import "claudeops/internal/agent/process"

// What the tests of whole sessions need to see.
const (
	StandardPath = standardPath
	FlushLines   = flushLines
	MaxRecorded  = maxRecorded
)

// Left returns how many processes of a session are left, and the path of its control group if that is.
func Left(key string) (processes int, group string, err error) {
	all, err := process.PIDs()
	if err != nil {
		return 0, "", err
	}
	if g := process.FindCgroup(key); g != nil {
		group = g.Path
	}
	return len(process.Holders(all, process.KeyName, key)), group, nil
}

// Alive returns when a process was started, and whether it runs.
func Alive(pid int) (started string, alive bool) {
	st, err := process.ReadStat(pid)
	return st.Started, err == nil && !st.Zombie
}
