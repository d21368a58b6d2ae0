package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"claudeops/test/realcli"
	"claudeops/test/realcodex"
)

const (
	claudeFolder = "claude-code-" + realcli.Version
	codexFolder  = "codex-" + realcodex.Version
	codexModel   = realcodex.Model
)

// options are what the caller asks for.
type options struct {
	only       string
	faults     string
	models     string
	contenders string
	full       bool
	repeat     int
	json       string
	keep       bool
	quick      bool
	slots      int
	dir        string
	binary     string
	docs       string
	atif       string
	harbor     string
	upstream   string
}

func runMatrix(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("incidents", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "fault/model/contender; a part may be * or left out")
	flags.StringVar(&o.faults, "faults", "", "run these faults, separated by commas, instead of the sample")
	flags.StringVar(&o.models, "models", "", "the same for models")
	flags.StringVar(&o.contenders, "contenders", "", "the same for contenders; one with a / is the path of a program (test/incidents/README.md)")
	flags.BoolVar(&o.full, "full", false, "run everything: the whole grid for Claude Ops and the plain loop, what was chosen for the others")
	flags.IntVar(&o.repeat, "repeat", 1, "run each pair this often")
	flags.StringVar(&o.json, "json", "", "write the results to this file, one JSON object per line")
	flags.BoolVar(&o.quick, "quick", false, "run the pairs of the test only")
	flags.BoolVar(&o.keep, "keep", false, "keep the files of one pair and print where they are")
	flags.IntVar(&o.slots, "slots", 2*runtime.NumCPU(), "pairs that run at once")
	flags.StringVar(&o.dir, "faults-dir", "", "folder with the faults (default: those of the repository)")
	flags.StringVar(&o.binary, "binary", "", "the claudeops to run (default: the one of this checkout), such as that of another version or one that is broken on purpose")
	flags.StringVar(&o.docs, "docs", "", "run nothing; write docs/incidents.md from these results, JSON lines of one go (.gz is unpacked)")
	flags.StringVar(&o.atif, "atif", "", "write the trajectory of each run (ATIF 1.7) to this folder; with -docs, of those results instead of the document")
	flags.StringVar(&o.harbor, "harbor", "", "run nothing; write the faults as tasks of Harbor to this folder")
	flags.StringVar(&o.upstream, "upstream", "", "base URL of a Messages API; the model \"real\" is behind it, with the key in "+upstreamKey)
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case o.harbor != "":
		return writeTasks(o)
	case o.docs != "":
		return writeDocs(o)
	}
	b, err := newBench(ctx, o.dir, o.binary)
	if err != nil {
		return err
	}
	if o.upstream != "" {
		b.models = append(b.models, &Model{Name: realName})
		stop, err := b.outside(ctx, o.upstream)
		if err != nil {
			return err
		}
		defer func() { _ = stop() }()
	}
	if err := errors.Join(b.known(o), b.take(o.contenders)); err != nil {
		return err
	}
	jobs := b.jobs(o)
	if err := b.build(ctx, jobs); err != nil {
		return err
	}
	if len(jobs) == 0 {
		return fmt.Errorf("nothing matches %q", o.only)
	}
	if len(b.origin.Commit) != fullCommit {
		fmt.Fprintf(os.Stderr, "These results are of %q and cannot be published; commit first.\n", b.origin.Commit)
	}
	if o.keep {
		if len(jobs) > 1 {
			return fmt.Errorf("%q are %d runs; name one as fault/model/contender to keep it", o.only, len(jobs))
		}
		r, err := b.runKept(ctx, jobs[0])
		fmt.Fprintln(os.Stdout, r.line())
		return err
	}
	results, err := b.runAll(ctx, jobs, o)
	newReport(results, b.faults, b.models).print(os.Stdout)
	if o.atif != "" {
		err = errors.Join(err, writeTrajectories(o.atif, results))
	}
	return err
}

// bench is what all pairs share.
type bench struct {
	root   string
	image  string
	binary string
	origin Origin
	faults []*Fault
	models []*Model
	chosen chosen

	programs map[string]string // contenders of the caller's, by name
	out      string            // the folder through which worlds reach a real model
}

func newBench(ctx context.Context, faults, binary string) (*bench, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("the benchmark makes namespaces and runs Docker: it needs root")
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	b := &bench{root: root, binary: filepath.Join(root, ".cache", "incidents-bin", "claudeops")}
	for _, path := range []string{filepath.Join(".cache", claudeFolder, "claude"), filepath.Join(".cache", codexFolder, "bin/codex")} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			return nil, fmt.Errorf("%w: run script/setup-tests", err)
		}
	}
	if b.faults, err = loadFaults(cmp.Or(faults, filepath.Join(root, "test/incidents/faults"))); err != nil {
		return nil, err
	}
	if b.models, err = loadModels(filepath.Join(root, "test/incidents/models")); err != nil {
		return nil, err
	}
	if b.chosen, err = loadChosen(); err != nil {
		return nil, err
	}
	if binary != "" { // a world has a /tmp of its own, so it is copied
		b.binary += givenBinary
		if err := copyProgram(binary, b.binary); err != nil {
			return nil, err
		}
	}
	if b.origin, err = originOf(ctx, root); err != nil {
		return nil, err
	}
	if binary != "" {
		b.origin.Commit += " with another program"
	}
	b.image, err = prepareImage(ctx, root)
	return b, err
}

func copyProgram(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	_ = os.Remove(to) // it may run, and can then not be written
	err = os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		err = os.WriteFile(to, data, 0o755) //nolint:gosec // it is executed
	}
	if err != nil {
		return fmt.Errorf("copy the program: %w", err)
	}
	return nil
}

// take copies the programs among the contenders to where worlds see them.
func (b *bench) take(contenders string) error {
	b.programs = map[string]string{}
	for path := range strings.SplitSeq(contenders, ",") {
		if !strings.Contains(path, "/") {
			continue
		}
		name := filepath.Base(path)
		if _, err := contenderNamed(name); err == nil {
			return fmt.Errorf("%s has the name of another contender", path)
		}
		b.programs[name] = filepath.Join(b.root, ".cache", "incidents-bin", "contender-"+name)
		if err := copyProgram(path, b.programs[name]); err != nil {
			return err
		}
	}
	return nil
}

const fullCommit = 40

// originOf names the commit, this moment and the machine.
func originOf(ctx context.Context, root string) (Origin, error) {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--exclude=*", "--abbrev="+fmt.Sprint(fullCommit), "--dirty= with changes")
	cmd.Dir = root
	commit, err := cmd.Output()
	if err != nil {
		return Origin{}, fmt.Errorf("name the commit: %w", err)
	}
	read := func(path, pattern string) string {
		text, _ := os.ReadFile(path)
		if found := regexp.MustCompile(pattern).FindSubmatch(text); found != nil {
			return string(found[1])
		}
		return "unknown"
	}
	kilobytes, _ := strconv.Atoi(read("/proc/meminfo", `MemTotal:\s+(\d+)`))
	machine := fmt.Sprintf("%d cores (%s), %d GB, Linux %s", runtime.NumCPU(), read("/proc/cpuinfo", `model name\s*: (.*)`), (kilobytes+1<<19)>>20,
		read("/proc/sys/kernel/osrelease", `(\S+)`))
	return Origin{Commit: strings.TrimSpace(string(commit)), Started: time.Now().UTC().Truncate(time.Second), Machine: machine}, nil
}

// writeDocs writes the documents from results that were made before.
func writeDocs(o options) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	faults, err := loadFaults(cmp.Or(o.dir, filepath.Join(root, "test/incidents/faults")))
	if err != nil {
		return err
	}
	models, err := loadModels(filepath.Join(root, "test/incidents/models"))
	if err != nil {
		return err
	}
	results, err := readResults(o.docs)
	if err != nil {
		return err
	}
	if o.atif != "" {
		return writeTrajectories(o.atif, results)
	}
	return newReport(results, faults, models).writeDocuments(root)
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("no go.mod above the working folder")
	}
	return "", fmt.Errorf("find the module: %w", err)
}

// modelNames are the models of the matrix: each behind Claude Code, and four behind Codex as well.
func modelNames(models []*Model) []string {
	var names []string
	for _, m := range models {
		names = append(names, m.Name)
	}
	for _, name := range []string{"expert", "wrecker", "museum", "cosmetic"} {
		if slices.Contains(names, name) {
			names = append(names, name+onCodex)
		}
	}
	return names
}

// jobs are the pairs that the caller asks for.
func (b *bench) jobs(o options) []Job {
	var jobs []Job
	for index, f := range b.faults {
		for _, model := range slices.DeleteFunc(modelNames(b.models), func(name string) bool { return !f.meets(name) }) {
			for _, contender := range append(append(contenderNames(), againName), slices.Sorted(maps.Keys(b.programs))...) {
				if contender == againName && !strings.HasSuffix(o.only, "/"+againName) && !listed(o.contenders, againName) {
					continue
				}
				j := Job{
					Fault: f.Name, Model: model, Contender: contender, Root: b.root, Faults: filepath.Dir(f.Dir), Image: b.image, Binary: b.binary, Keep: o.keep,
					Program: b.programs[contender], Out: b.out,
				}
				if _, ablated := ablations()[contender]; ablated || contender == againName {
					j.Binary += "-" + contender
				}
				switch {
				case !o.wants(j), o.quick && !inTest(f, index, j), o.full && !b.chosen.inFull(j):
					continue
				case !o.full && !o.quick && !o.chosen() && !b.chosen.inSample(j):
					continue
				}
				for j.Repeat = 1; j.Repeat <= o.repeat; j.Repeat++ {
					jobs = append(jobs, j)
				}
			}
		}
	}
	return jobs
}

// wants reports whether a pair belongs to what the caller asks for.
func (o options) wants(j Job) bool {
	parts := strings.Split(o.only, "/")
	for i, name := range []string{j.Fault, j.Model, j.Contender} {
		if i < len(parts) && parts[i] != "" && parts[i] != "*" && parts[i] != name {
			return false
		}
	}
	for list, name := range map[*string]string{&o.faults: j.Fault, &o.models: j.Model, &o.contenders: j.Contender} {
		if *list != "" && !listed(*list, name) {
			return false
		}
	}
	return true
}

// chosen reports whether the caller names what runs.
func (o options) chosen() bool { return o.only+o.faults+o.models+o.contenders != "" }

// listed reports whether a list that is separated by commas has a name. Of a path, the last part counts.
func listed(list, name string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(one string) bool { return filepath.Base(one) == name })
}

// known reports names that nothing has, so that a mistake does not run less than was asked for.
func (b *bench) known(o options) error {
	var faults []string
	for _, f := range b.faults {
		faults = append(faults, f.Name)
	}
	for _, part := range []struct {
		what, list string
		all        []string
	}{{"fault", o.faults, faults}, {"model", o.models, modelNames(b.models)}, {"contender", o.contenders, append(contenderNames(), againName)}} {
		for name := range strings.SplitSeq(part.list, ",") {
			if name != "" && !strings.Contains(name, "/") && !slices.Contains(part.all, name) {
				return fmt.Errorf("there is no %s %q; there are %s", part.what, name, strings.Join(part.all, ", "))
			}
		}
	}
	return nil
}

// runAll runs the pairs, a few at once, and returns their results in order.
func (b *bench) runAll(ctx context.Context, jobs []Job, o options) ([]Result, error) {
	var file *os.File
	if o.json != "" {
		var err error
		if file, err = os.Create(o.json); err != nil {
			return nil, fmt.Errorf("write results: %w", err)
		}
		defer func() { _ = file.Close() }()
	}
	results := make([]Result, len(jobs))
	var wg sync.WaitGroup
	var mu sync.Mutex
	// Worlds that only wait for the oracle's later looks lie beside those that work.
	slots, worlds := make(chan struct{}, o.slots), make(chan struct{}, o.slots+waitingWorlds)
	for i, j := range jobs {
		slots <- struct{}{}
		worlds <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			r := b.runOne(ctx, j, sync.OnceFunc(func() { <-slots }))
			<-worlds
			results[i] = r
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(os.Stderr, r.line())
			if file != nil {
				_ = json.NewEncoder(file).Encode(r)
			}
		})
	}
	wg.Wait()
	return results, ctx.Err()
}

// waitingWorlds is how many worlds may wait at once; each needs some 250 MB.
const waitingWorlds = 16

// runOne runs a pair. Idle is called when it needs the processors no longer, at the latest at its end.
func (b *bench) runOne(ctx context.Context, j Job, idle func()) Result {
	defer idle()
	r, err := runWorld(ctx, j, "", pairLimit+30*time.Second, idle)
	if err != nil {
		r = Result{Fault: j.Fault, Model: j.Model, Contender: j.Contender, Repeat: j.Repeat, Broken: err.Error()}
	}
	r.Origin = b.origin
	return r
}
