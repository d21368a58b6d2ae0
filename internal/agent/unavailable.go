package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"claudeops/internal/ops"
)

// unavailable remembers the programs that could not be started. One is tried again when a file of it has changed.
type unavailable struct {
	mu  sync.Mutex
	why map[string]error
}

func (u *unavailable) of(p Program) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.why[p.Identity()]
}

func (u *unavailable) add(p Program, why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.why == nil {
		u.why = map[string]error{}
	}
	u.why[p.Identity()] = why
}

// Identity tells a program from what may take its place: the path, size and time of each file that it is started from.
func (p Program) Identity() string {
	var out strings.Builder
	for _, path := range slices.Compact(append([]string{p.File, p.Path}, p.Needs...)) {
		out.WriteString(path)
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&out, " %d %d", info.Size(), info.ModTime().UnixNano())
		}
		out.WriteString("\n")
	}
	return out.String()
}

// cannotStart reports whether an exit code is that of a program, or of what should have started it, that could not be started.
func cannotStart(code int) bool { return code >= 125 && code <= 127 }

// noteUnavailable makes the end of a program that printed nothing one that could not be started, where its exit code says so or where it
// misses what the walls hide. It has cost nothing, and it is not tried again as it is.
func (r *run) noteUnavailable(spoke bool, said string) {
	code := *r.res.ExitCode
	if spoke || code == 0 || r.res.Stop != ops.StopNone || r.res.Failure == ops.FailureLayer {
		return
	}
	hidden := ""
	if r.walls != nil {
		hidden = HiddenFrom(r.walls.Hides(r.spec.Session.May(), r.prepared.Program), said, r.prepared.Program)
	}
	if !cannotStart(code) && hidden == "" {
		return
	}
	text := WithDetail(exitText(r.prepared.Name+" could not be started: it", code), said) + hidden
	r.res.Failure, r.res.Err = ops.FailureStart, cut(clean(r.o.Redactor.String(text)), 2*maxSentence, 0)
	r.res.CostUSD = ops.Ptr(0.0)
	r.unavailable.add(r.prepared.Program, Refuse(ops.FailureStart, "%s", r.res.Err))
}

// HiddenFrom says which folder that a program needs its walls hide, and the line that opens it: one that its last words or the script that
// starts it name. It is empty where they name none.
func HiddenFrom(hides func(path string) bool, said string, p Program) string {
	if hides == nil {
		return ""
	}
	text := said
	if len(firstLine(p.File)) > 0 {
		if file, err := os.Open(p.File); err == nil {
			script, _ := io.ReadAll(io.LimitReader(file, maxScript))
			_ = file.Close()
			text += "\n" + string(script)
		}
	}
	home, _ := os.UserHomeDir()
	text = strings.NewReplacer("${HOME}", home, "$HOME", home, "~/", home+"/").Replace(text)
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`()<>;|&=,:", r) }) {
		if filepath.IsAbs(word) && hides(word) {
			dir := word
			if info, err := os.Stat(word); err == nil && !info.IsDir() {
				dir = filepath.Dir(word)
			}
			return fmt.Sprintf("; agents do not see %s: open it with sandbox.readable: [%s], or install the program itself", dir, dir)
		}
	}
	return ""
}

// maxScript bounds how much of a script is read for what it names.
const maxScript = 64 << 10
