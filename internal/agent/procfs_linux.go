package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ident names a process. The start time keeps a reused pid from being mistaken for it.
type ident struct {
	pid     int
	started string // as /proc shows it
}

// procStat is what /proc says about a process.
type procStat struct {
	ident
	parent int
	zombie bool
}

// readStat reads the state of one process.
func readStat(pid int) (procStat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	// The name of the program is in parentheses and may itself contain parentheses and blanks.
	_, rest, ok := strings.Cut(string(data[max(0, bytes.LastIndexByte(data, ')')):]), " ")
	fields := strings.Fields(rest)
	const state, parent, started = 0, 1, 19
	if !ok || len(fields) <= started {
		return procStat{}, fmt.Errorf("read process %d: unexpected format", pid)
	}
	ppid, err := strconv.Atoi(fields[parent])
	if err != nil {
		return procStat{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return procStat{
		ident:  ident{pid: pid, started: fields[started]},
		parent: ppid,
		zombie: fields[state] == "Z" || fields[state] == "X",
	}, nil
}

// alive reports whether the process runs, not merely waits to be reaped.
func (id ident) alive() bool {
	st, err := readStat(id.pid)
	return err == nil && st.started == id.started && !st.zombie
}

// pids lists the processes of this machine, without ourselves and the first one.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	err = errors.Join(err, dir.Close())
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	self := os.Getpid()
	out := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 1 && pid != self {
			out = append(out, pid)
		}
	}
	return out, nil
}

// withDescendants returns those of the roots that live, and everything they started that lives.
func withDescendants(all []int, roots []ident) []ident {
	if len(roots) == 0 {
		return nil
	}
	children := make(map[int][]ident)
	live := make(map[ident]bool)
	for _, pid := range all {
		st, err := readStat(pid)
		if err != nil || st.zombie {
			continue
		}
		live[st.ident] = true
		children[st.parent] = append(children[st.parent], st.ident)
	}
	var out []ident
	seen := make(map[ident]bool)
	queue := append([]ident{}, roots...)
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if seen[id] || !live[id] {
			continue
		}
		seen[id] = true
		out = append(out, id)
		queue = append(queue, children[id.pid]...)
	}
	return out
}

// environScan finds processes by an entry of their environment.
type environScan struct {
	entry []byte
	buf   []byte
}

func newEnvironScan(name, value string) *environScan {
	return &environScan{entry: []byte(name + "=" + value), buf: make([]byte, 16<<10)}
}

// holders returns the processes whose environment holds the entry.
func (e *environScan) holders(all []int) []ident {
	var out []ident
	for _, pid := range all {
		if !e.held(pid) {
			continue
		}
		if st, err := readStat(pid); err == nil && !st.zombie {
			out = append(out, st.ident)
		}
	}
	return out
}

// held reports whether the environment of a process holds the entry. Plain system calls, because
// this is done for every process of the machine at the end of every session.
func (e *environScan) held(pid int) bool {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/environ", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	n := 0
	for {
		if n == len(e.buf) {
			e.buf = append(e.buf, make([]byte, len(e.buf))...)
		}
		got, err := syscall.Read(fd, e.buf[n:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || got <= 0 {
			return holdsEntry(e.buf[:n], e.entry)
		}
		n += got
	}
}

// holdsEntry looks for one whole entry among entries that end with a NUL.
func holdsEntry(environ, entry []byte) bool {
	for from := 0; ; {
		i := bytes.Index(environ[from:], entry)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(entry)
		if (i == 0 || environ[i-1] == 0) && (end == len(environ) || environ[end] == 0) {
			return true
		}
		from = i + 1
	}
}
