//go:build linux

package guard

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/needs"
)

// needsValue is what programs say when an option lacks its value, unknown when they do not have the option.
var (
	needsValue = regexp.MustCompile(`(?im)requires (an? |its )?(argument|parameter|value)|needs an? (argument|value)|missing argument( to|$)|` +
		`argument required|expected (one |an |a )?argument|missing parameter|option .* needs a value|missing value|expects a value|requires a (number|string)|takes a value|` +
		`option requires|needs a parameter|no argument given|must be followed by|requires one argument|no directory given|expects a configuration string|invalid argument .-[a-z]+' to`)
	unknown = regexp.MustCompile(`(?i)unrecogni[sz]ed option|unknown (option|flag|shorthand)|invalid option|unknown switch|illegal option|unrecognized argument|is unknown`)
)

// silent are programs that do not say what they lack, or whose options are words of another kind, and those of which one word
// alone would start something.
func silent(program string) bool {
	return slices.Contains([]string{
		"[", "test", "dd", "ps", "ip", "bridge", "tc", "dig", "nslookup", "less", "more", "lsof", "xxd", "redis-cli", "man", "info", "which", "whereis",
		"type", "umask", "help", "read", "wait", "cd", "pushd", "jobs", "pwd", "printf", "ulimit", "mapfile", "readarray", "unset", "exec", "command", "hash", "route", "arp",
		"ifconfig", "expr", "bc", "awk", "gawk", "mawk", "nawk", "original-awk", "jq", "yq", "sh", "bash", "dash", "apprise", "zcat", "xzcat", "bzcat", "zgrep", "zegrep", "zfgrep",
		"zdiff", "zcmp", "zless", "zmore", "uuidgen", "mcookie", "clear", "tput", "tty", "time", "nohup", "make", "npm", "pip", "pip3", "go", "apt", "apt-cache",
		"dpkg", "dpkg-query", "locale", "getconf", "service", "watch", "lastlog", "pidof", "unzip", "7z", "zip", "mktemp", "logger", "mysqlshow",
		"tcptraceroute", "whois", "pg_lsclusters", "nginx", "kdig", "delv", "top", "htop", "iostat", "mpstat", "pidstat", "sar", "amtool", "netstat", "host", "docker", "kubectl",
	}, program)
}

// box is a throw-away folder in which programs run with nothing to find.
type box struct{ dir string }

func newBox(t *testing.T) box {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("make a repository: %v: %s", err, out)
	}
	must(t, os.WriteFile(filepath.Join(dir, "zz"), []byte("x\n"), 0o600))
	return box{dir}
}

// says runs a program and returns what it prints until it ends or is cut.
func (b box) says(limit time.Duration, words ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the programs of the tables
	c.Dir = b.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LC_ALL=C", "PAGER=cat", "GIT_CONFIG_NOSYSTEM=1", "DOCKER_HOST=unix:///nonexistent", "KUBECONFIG=/nonexistent"} //nolint:forbidigo // the path of the machine
	out := &limited{}
	c.Stdout, c.Stderr = out, out
	c.WaitDelay = 100 * time.Millisecond
	_ = c.Run()
	return out.text.String()
}

// limited keeps the beginning of an output.
type limited struct{ text bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.text.Len() < 1<<14 {
		l.text.Write(p)
	}
	return len(p), nil
}

// measured is one option of a row to be tried.
type measured struct {
	r    *row
	f    *flag
	name string
}

func TestTheTablesSayWhatProgramsTake(t *testing.T) {
	t.Parallel()
	g, b := newGuard(t), newBox(t)
	programs := map[string]bool{}
	var work []measured
	for _, r := range g.tables.order {
		words := strings.Fields(r.cmd)
		if r.alias != "" || r.tier > ops.Tier1 && words[0] != "git" && len(words) > 1 || r.tier > ops.Tier2 || silent(words[0]) || strings.HasPrefix(r.cmd, "git stash ") || len(r.options) == 0 {
			continue
		}
		if _, err := exec.LookPath(words[0]); err != nil || words[0] == "docker" && len(words) > 1 && words[1] == "compose" {
			continue
		}
		programs[words[0]] = true
		for _, f := range r.options {
			for _, name := range f.names {
				if f.tier < never && name != "-NUM" && name != "--help" && name != "--version" && name[0] == '-' {
					work = append(work, measured{r, f, name})
				}
			}
		}
	}
	if len(programs) < 20 {
		needs.End(t, fmt.Errorf("with %d programs: %w", len(programs), needs.Absent("most of what the tables tell")))
	}
	tried := b.try(t, work)
	t.Logf("%d options of %d programs, of which %d are known to the installed versions", len(work), len(programs), tried)
}

// try compares options with what the programs say of them; options that an installed version does not have are left out.
func (b box) try(t *testing.T, work []measured) int {
	t.Helper()
	todo, tried := make(chan measured), 0
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for m := range todo {
				words := append(strings.Fields(m.r.cmd), m.name)
				if m.r.cmd == "rg" {
					words = []string{"rg", "zz", m.name}
				}
				takes := m.f.role != "" && !m.f.optional
				alone := b.says(time.Second, words...)
				if takes && alone == "" {
					alone = b.says(20*time.Second, words...) // the machine is busy
				}
				needs := needsValue.MatchString(alone)
				if unknown.MatchString(alone) && !needs {
					continue
				}
				mu.Lock()
				tried++
				mu.Unlock()
				if takes != needs {
					t.Errorf("%s: the table says that a value follows: %v; the program says %q", strings.Join(words, " "), takes, firstLine(alone))
				}
			}
		})
	}
	for _, m := range work {
		todo <- m
	}
	close(todo)
	workers.Wait()
	return tried
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// helpLine is an option in the help of docker, and in that of kubectl.
var helpLine = regexp.MustCompile(`(?m)^ +(?:(-\w), )?(--[\w-]+)(?: (\w+)|(=[^:]*):)?(?:\s|$)`)

// fromHelp reads which options take a value: true, false, or not there.
func fromHelp(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range helpLine.FindAllStringSubmatch(text, -1) {
		takes := m[3] != "" || m[4] != "" && m[4] != "=false" && m[4] != "=true"
		out[m[2]] = takes
		if m[1] != "" {
			out[m[1]] = takes
		}
	}
	return out
}

func TestTheTablesSayWhatDockerAndKubectlSay(t *testing.T) {
	t.Parallel()
	g, b := newGuard(t), newBox(t)
	checked := 0
	for _, r := range g.tables.order {
		words := strings.Fields(r.cmd)
		if _, err := exec.LookPath(words[0]); err != nil || words[0] != "docker" && words[0] != "kubectl" || len(r.options) == 0 || len(words) > 1 && words[1] == "compose" {
			continue
		}
		help := []string{"--help"}
		if r.cmd == "kubectl" {
			help = []string{"options"}
		}
		said := fromHelp(b.says(20*time.Second, append(words, help...)...))
		for _, f := range r.options {
			for _, name := range f.names {
				takes, known := said[name]
				if !known || f.tier >= never || f.optional {
					continue
				}
				checked++
				if takes != (f.role != "") {
					t.Errorf("%s %s: the table says that a value follows: %v, the help says %v", r.cmd, name, f.role != "", takes)
				}
			}
		}
	}
	t.Logf("%d options compared", checked)
}

func TestTheTablesSayWhatReferencePagesSay(t *testing.T) {
	g := newGuard(t)
	data, err := os.ReadFile("testdata/arity.txt")
	must(t, err)
	var r *row
	var groups []*row
	checked := 0
	for _, line := range strings.Split(string(data), "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "", "//":
		case "none", "value", "optional":
			for name := range strings.FieldsSeq(rest) {
				f := r.flags[name]
				for _, group := range groups {
					if f == nil {
						f = group.flags[name]
					}
				}
				if f == nil {
					continue // refused, so that its arity does not matter
				}
				checked++
				got := "none"
				if f.role != "" {
					got = "value"
				}
				if f.optional {
					got = "optional"
				}
				if got != kind {
					t.Errorf("%s %s: %s, the page says %s", r.cmd, name, got, kind)
				}
			}
		default:
			words := strings.Fields(line)
			cmd := words[:len(words)-1]
			r, groups = g.tables.find(strings.Join(cmd, " ")), []*row{g.tables.find(cmd[0])}
			if r == nil {
				t.Fatalf("there is no command %q", cmd)
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d options compared", checked)
	}
}
