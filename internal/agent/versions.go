package agent

import (
	"cmp"
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

// Versions asks a program for its version and remembers the answer until the program is replaced.
type Versions struct {
	Bin       string                               // the program, as it is configured
	Args      []string                             // before --version
	Shape     *regexp.Regexp                       // of the answer; its first group is the version
	Wait      time.Duration                        // for the answer
	Needed    bool                                 // a program that does not tell is asked again
	Variables func(home string) (adding Variables) // for a home that is empty

	mu   sync.Mutex
	last Version
}

// Version is what a program said of itself.
type Version struct {
	Text string // empty when it does not tell
	Why  string // it does not run

	of string // the identity of the program
}

// AtLeast reports whether a version is known, and not older than another.
func (v Version) AtLeast(oldest string) bool { return v.Text != "" && !OlderVersion(v.Text, oldest) }

// Of is the version of a program. Env is the environment a session would have.
func (v *Versions) Of(ctx context.Context, program Program, env []string) Version {
	identity := program.Identity()
	v.mu.Lock()
	last := v.last
	v.mu.Unlock()
	if last.of == identity {
		return last
	}
	asked := Version{of: identity}
	answer := v.ask(ctx, program, env)
	if died := answer.Died(); died != "" {
		asked.Why = v.Bin + " does not run: " + died
	} else if match := v.Shape.FindStringSubmatch(answer.Line); match != nil {
		asked.Text = match[1]
	}
	// What a program that failed lacks may be installed without changing it.
	if ctx.Err() == nil && (asked.Text != "" || answer.ExitCode <= 0 && !v.Needed) {
		v.mu.Lock()
		v.last = asked
		v.mu.Unlock()
	}
	return asked
}

func (v *Versions) ask(ctx context.Context, program Program, env []string) Answer {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		return Answer{ExitCode: -1, Error: err.Error()}
	}
	defer func() { _ = os.RemoveAll(home) }()
	ctx, cancel := context.WithTimeout(ctx, v.Wait)
	defer cancel()
	program.Key = "version-" + uuid.NewString()
	spec := ops.SessionSpec{Env: env, Session: ops.Session{Key: program.Key}}
	program.Argv, program.Dir = slices.Concat(program.Argv, v.Args, []string{"--version"}), home
	program.Env = Environment(spec, Folders{Home: home, State: home}, v.Variables(home))
	return Ask(ctx, program)
}

// OlderVersion reports whether version a comes before b.
func OlderVersion(a, b string) bool {
	left, right := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(left), len(right)) {
		x, _ := strconv.Atoi(left[i])
		y, _ := strconv.Atoi(right[i])
		if d := cmp.Compare(x, y); d != 0 {
			return d < 0
		}
	}
	return false
}
