package agent

// What the tests of whole sessions need to see.
const (
	StandardPath = standardPath
	FlushLines   = flushLines
	MaxRecorded  = maxRecorded
)

// Left returns how many processes of a session are left, and the path of its control group if that is.
func Left(key string) (processes int, group string, err error) {
	all, err := pids()
	if err != nil {
		return 0, "", err
	}
	if g := findCgroup(key); g != nil {
		group = g.path
	}
	return len(newEnvironScan(keyName, key).holders(all)), group, nil
}

// Alive returns when a process was started, and whether it runs.
func Alive(pid int) (started string, alive bool) {
	st, err := readStat(pid)
	return st.started, err == nil && !st.zombie
}
