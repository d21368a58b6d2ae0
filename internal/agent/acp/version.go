package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// probeTime bounds how long a CLI may take to say what it is: some take many seconds to start on a busy machine.
const probeTime = 90 * time.Second

// probed is what a program said of itself. It holds until the program is replaced.
type probed struct {
	path    string
	stamp   string // of its files
	version string // empty when it does not tell
	told    initialized
	why     string // there is no version
}

// probe asks a program for its version and its abilities.
func (a *ACP) probe(ctx context.Context, path string, env []string) probed {
	p := probed{path: path, stamp: stamp(append([]string{path}, a.o.Profile.Command[1:]...))}
	a.mu.Lock()
	defer a.mu.Unlock() // a second one that wants to know waits for the answer
	if k := a.known; k.path == path && k.stamp == p.stamp && k.version != "" {
		return k
	}
	asking, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	a.handshake(asking, &p, env)
	if p.version != "" {
		a.known = p
	}
	return p
}

// stamp changes when one of the files does: a program in a language that is interpreted is an argument of its interpreter.
func stamp(words []string) string {
	var out strings.Builder
	for _, w := range words {
		if !filepath.IsAbs(w) {
			continue
		}
		if info, err := os.Stat(w); err == nil {
			fmt.Fprintf(&out, "%s %d %d\n", w, info.Size(), info.ModTime().UnixNano())
		}
	}
	return out.String()
}

// handshake starts the program, without a key and in a folder of its own, and ends it when it has answered.
func (a *ACP) handshake(ctx context.Context, p *probed, env []string) {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		p.why = err.Error()
		return
	}
	defer func() { _ = os.RemoveAll(home) }()
	stdin, in, err := os.Pipe()
	if err != nil {
		p.why = err.Error()
		return
	}
	w := &wire{file: in}
	defer w.close()
	(&client{wire: w, pending: map[string]string{}}).begin()
	spec := ops.SessionSpec{Env: env, Session: ops.Session{Key: "version-" + uuid.NewString()}}
	f := agent.Folders{Home: home, Config: home, State: home, Work: home}
	pl := a.places(spec, f)
	answer := agent.AskUntil(ctx, agent.Program{
		Path: p.path, Argv: append([]string{p.path}, pl.all(a.o.Profile.Command[1:])...), Dir: home, Key: spec.Session.Key, Stdin: stdin,
		Env: (&ACP{o: Options{Profile: Profile{Env: a.o.Profile.Env}}}).environment(spec, f, pl),
	}, func(line string) bool {
		m, ok := parse(line)
		return ok && m.Method == "" && string(m.ID) == "1"
	})
	m, ok := parse(answer.Line)
	switch {
	case !ok:
		p.why = agent.WithDetail("it did not answer", answer.Error)
	case m.Error != nil:
		p.why = m.Error.text()
	case json.Unmarshal(m.Result, &p.told) != nil || p.told.Version != protocolVersion:
		p.why = fmt.Sprintf("it speaks version %d of the protocol", p.told.Version)
	default:
		p.version = p.told.Agent.Version
	}
}
