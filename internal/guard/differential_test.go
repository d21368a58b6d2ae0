//go:build linux

package guard

import (
	options "flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// differentialTime is how long random scripts are compared; `-differential 10m` looks for longer.
var differentialTime = options.Duration("differential", 18*time.Second, "how long to compare random scripts with bash")

// batchSize is how many candidates share one start of the sandbox.
const batchSize = 120

// harmless refuses candidates that could reach beyond their folder or end processes.
func harmless(script string) bool {
	for _, bad := range []string{"/", "~", "kill", "ulimit", "BASH", "PWD", "exec", "\x00", "suspend", "umask", "enable", "hash", "trap", "GUARD_LOG", "builtin"} {
		if strings.Contains(script, bad) {
			return false
		}
	}
	return len(script) < 4096
}

// candidate is a script of which the guard says what it runs.
type candidate struct {
	script string
	seen   [][]field
}

// candidates are the original and the printed form of a script, when the guard claims to know what it runs.
func candidates(g *Guard, r *reader, facts Facts, script string) []candidate {
	if !harmless(script) {
		return nil
	}
	parsed, bad := r.parse(script)
	if bad != nil {
		return nil // refused unread
	}
	j := g.walk(r, parsed.file, &facts)
	if j.opaque || j.worst != nil && j.worst.rule == ruleLoop {
		return nil // refused as something that cannot be read
	}
	out := []candidate{{parsed.text, j.seen}}
	if strings.TrimSuffix(parsed.text, "\n") != script {
		out = append(out, candidate{script, j.seen})
	}
	return out
}

// String shows the commands the guard saw, with … for what is known only at run time.
func (c candidate) String() string {
	var out []string
	for _, fields := range c.seen {
		words := make([]string, len(fields))
		for i, f := range fields {
			words[i] = strconv.Quote(f.show())
		}
		out = append(out, strings.Join(words, " "))
	}
	return "[" + strings.Join(out, "; ") + "]"
}

// foreseen reports that the guard saw a command with these words.
func (c candidate) foreseen(words []string) bool {
	return slices.ContainsFunc(c.seen, func(fields []field) bool { return couldBe(fields, words) })
}

// couldBe reports that fields, of which some are known only at run time, may become these words.
func couldBe(fields []field, words []string) bool {
	if len(fields) == 0 {
		return len(words) == 0
	}
	f := fields[0]
	if !f.dyn && !f.glob && !f.proc && !f.temp {
		return len(words) > 0 && words[0] == f.text && couldBe(fields[1:], words[1:])
	}
	least, most := 1, 1
	if f.split || f.glob {
		least, most = 0, len(words)
	}
	for n := least; n <= min(most, len(words)); n++ {
		if couldBe(fields[1:], words[n:]) {
			return true
		}
	}
	return false
}

// tally counts what was compared.
type tally struct{ runs, commands, cut atomic.Int64 }

// compare runs candidates and reports programs the guard did not see.
func (s *sandbox) compare(t testing.TB, list []candidate, how manner, count *tally) {
	t.Helper()
	for batch := range slices.Chunk(list, batchSize) {
		scripts := make([]string, len(batch))
		for i, c := range batch {
			scripts[i] = c.script
		}
		for i, got := range s.run(t, scripts, how) {
			count.runs.Add(1)
			if got.cut {
				count.cut.Add(1)
			}
			for _, words := range got.commands {
				count.commands.Add(1)
				if !batch[i].foreseen(words) {
					t.Errorf("in %q bash ran %q, the guard saw only %s", batch[i].script, words, batch[i])
				}
			}
		}
	}
}

// randomBatch makes the candidates of one numbered batch, always the same ones.
func randomBatch(g *Guard, facts Facts, number uint64) (list []candidate, scripts int64) {
	rng, r := rand.New(rand.NewPCG(1, number)), newReader()
	for len(list) < batchSize-1 {
		list = append(list, candidates(g, r, facts, randomScript(rng))...)
		scripts++
	}
	return list, scripts
}

func TestBashRunsNothingTheGuardDidNotSee(t *testing.T) {
	t.Parallel()
	g, facts, s := newGuard(t), testFacts(), newSandbox(t)
	var count tally
	var corpus []candidate
	r := newReader()
	for _, text := range seedScripts(t) {
		corpus = append(corpus, candidates(g, r, facts, text)...)
	}
	s.compare(t, corpus, viaArgument, &count)
	if count.commands.Load() == 0 {
		t.Fatalf("bash ran nothing of %d scripts (%d cut): the sandbox does not work", len(corpus), count.cut.Load())
	}
	limit := *differentialTime
	if testing.Short() {
		limit = min(limit, 2*time.Second)
	}
	end := time.Now().Add(limit)
	var number, scripts atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		workers.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				n := number.Add(1)
				list, made := randomBatch(g, facts, uint64(n))
				scripts.Add(made)
				s.compare(t, list, []manner{viaArgument, viaEval}[n%2], &count)
			}
		})
	}
	workers.Wait()
	t.Logf("%s: %d random scripts made, %d runs of bash compared (%d of the corpus, %d cut), %d commands bash ran were foreseen",
		s, scripts.Load(), count.runs.Load(), len(corpus), count.cut.Load(), count.commands.Load())
}

// trapScripts have the shapes in which a parser may lose sight of a command.
func trapScripts() []string {
	return []string{
		"seq 1; dirname a", "if expr 1; then seq 2; elif dirname; then basename a; fi", "f() { seq 1; }; f | { dirname; }",
		"x=a; seq $x \"$x\"; for x in b c; do expr $x; done; seq $x", "x=a; false && x=b; seq $x; true | x=c; seq $x; (x=d); seq \"$x\"",
		"seq <<E; dirname\n$(basename a) ${x:-`expr 1`}\nE\nexpr 2", "expr <<-'E' | dirname\n\t$(basename a)\n\tE\nseq 1", "case $(seq 1) in a|$(dirname)) expr 1;;& *) basename a;; esac",
		"seq <(dirname) >(basename a) $((1+$(expr 1)))", "[[ -n $(seq 1) && a =~ $(dirname) ]] && a=($(expr 1) [2]=$(basename a))", "time seq 1 | dirname; ! expr 1 || basename a",
		"seq {a,b}{1..2} $'\\x41' \"${x:-\"$(dirname)\"}\" ${y/a/$(expr 1)}", "s\\\neq a \\\nb # c\ndirname", "seq || x=$((x+1)) && expr $x a", "if dirname; then for ((x=0; x<2; x++)); do :; done; fi; seq $x$x", "declare x=a; unset x; seq $x ${x} $!",
		"x=1 y=$(seq 2) expr 3 2>&1 >o <<<\"$(dirname)\"",
	}
}

// seedScripts are the committed cases and the places where parsers are known to differ from bash.
func seedScripts(t testing.TB) []string {
	t.Helper()
	out := trapScripts()
	for _, c := range readCases(t) {
		out = append(out, c.command)
	}
	return out
}

// runsPerInput is how many runs of bash each input of the fuzzer costs, so that they can be counted: starting a sandbox
// takes longer than a run in it.
const runsPerInput = 40

// FuzzDifferential is the same, led by the coverage of the guard.
func FuzzDifferential(f *testing.F) {
	for _, seed := range trapScripts() { // few, because every plain test run goes through them
		f.Add(seed)
	}
	g, facts, s := newGuard(f), testFacts(), newSandbox(f)
	s.patience = 3 * time.Second // an input that takes ten is a failure for the fuzzer
	f.Fuzz(func(t *testing.T, script string) {
		rng, r := rand.New(rand.NewPCG(uint64(len(script)), digest(script))), newReader()
		list := candidates(g, r, facts, script)
		for range runsPerInput / 2 {
			list = append(list, candidates(g, r, facts, mutate(rng, script))...)
		}
		list = slices.DeleteFunc(list, func(c candidate) bool { return maybeEndless(c.script) })
		for len(list) < runsPerInput {
			list = append(list, candidates(g, r, facts, randomScript(rng))...)
		}
		s.compare(t, list[:runsPerInput], viaArgument, new(tally))
	})
}

// maybeEndless reports loops that may go on until their processor time is used up.
func maybeEndless(script string) bool {
	return strings.Contains(script, "while") || strings.Contains(script, "until") || strings.Contains(script, "((")
}

func TestTheSandboxShowsWhereBashAndTheParserDiffer(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	scripts := []string{
		"seq # x \\\ndirname a",
		"x=$(seq # c\\\ndirname a)",
		"seq a \\\r\ndirname b",
		"seq <<'E'# ; dirname a\nE\n",
		"x=(a b)# ; dirname a",
		"echo $((dirname a) )",
	}
	for i, got := range s.run(t, scripts, viaArgument) {
		if !got.cut && !slices.ContainsFunc(got.commands, func(words []string) bool { return words[0] == "dirname" }) {
			t.Errorf("bash did not run dirname in %q, so nothing would be noticed: %q", scripts[i], got.commands)
		}
		if _, bad := newReader().parse(scripts[i]); bad == nil {
			t.Errorf("%q is not refused", scripts[i])
		}
	}
}

func TestACandidateThatHangsOrForksDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	got := s.run(t, []string{"while :; do :; done", "seq a", ": >o; while read -r x; do seq b >>o; done <o; seq c"}, viaEval)
	if len(got) != 3 || len(got[1].commands) != 1 && !got[1].cut {
		t.Errorf("the script after an endless one was not run: %+v", got)
	}
}

func digest(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
