package probe

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	"claudeops/internal/ops"
)

// commLength is how much of a program's name the kernel keeps.
const commLength = 15

// process finds a running program by its name: the last part of its path, or the name that the kernel keeps.
func (p *Prober) process(ctx context.Context, spec ops.ProbeSpec) finding {
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return down("list processes: %s", reason(err))
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return down("%s", context.Cause(ctx))
		}
		if name := e.Name(); name[0] >= '0' && name[0] <= '9' && runs(filepath.Join(p.proc, name), spec.Process) {
			return healthy()
		}
	}
	return down("no process %s runs", spec.Process)
}

// runs reports whether the process has the name and is not a zombie. A process may end meanwhile.
func runs(folder, name string) bool {
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return false
	}
	// pid (name) state …; the name may hold parentheses itself.
	start, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if start < 0 || end < start || bytes.HasPrefix(stat[end:], []byte(") Z")) || bytes.HasPrefix(stat[end:], []byte(") X")) {
		return false
	}
	line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	if err == nil && len(line) > 0 {
		program, _, _ := bytes.Cut(line, []byte{0})
		// Servers write a title here: "nginx: master process".
		first, _, _ := strings.Cut(string(program), " ")
		if filepath.Base(string(program)) == name || strings.TrimSuffix(filepath.Base(first), ":") == name {
			return true
		}
	}
	return string(stat[start+1:end]) == name[:min(len(name), commLength)]
}
