package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"claudeops/internal/agent/process"
	"claudeops/internal/ops"
)

// Program is a program to start.
type Program struct {
	Path       string
	Argv       []string // with the name of the program
	File       string   // where it was found: Path may be the interpreter of it
	Needs      []string // files that have to be visible beside Path, such as an interpreter
	Env        []string
	Dir        string
	Key        string              // of the session
	Stdin      *os.File            // nil means /dev/null; closed once the program was started
	Credential *syscall.Credential // the user it runs as; nil means our own
	Limits     process.Limits
	// Proof reads the first line of the output, in which the walls report about themselves, and returns why the session must not go
	// on. Mine: the line is not the agent's. nil: no walls report.
	Proof func(line string) (mine bool, err error)

	// register tells the keeper about the session before it starts; nil without a keeper.
	register func(group string) (started func(process.Ident), err error)
}

// Behind sets walls up and returns the program as it is started behind them. Without walls it stays as it is.
func (p Program) Behind(walls Walls, tier ops.Tier) (Program, error) {
	if walls == nil {
		return p, nil
	}
	if err := walls.Prepare(tier); err != nil {
		return Program{}, Refuse(ops.FailureLayer, "%v", err)
	}
	out, err := walls.Wrap(tier, p)
	if err != nil {
		return Program{}, Refuse(ops.FailureLayer, "%v", err)
	}
	return out, nil
}

// errNotInPath says that no folder of a PATH holds a program.
var errNotInPath = errors.New("it is in no folder of PATH")

// Find looks for a program by its path, or in the first PATH among the environments, and returns it as it is started, without its
// arguments: behind walls no PATH decides what interpreter a script gets. The hint tells the operator what to do when it is not there.
func Find(bin, hint string, envs ...[]string) (Program, error) {
	path, err := lookFor(bin, searchPath(envs...))
	switch {
	case errors.Is(err, errNotInPath):
		return Program{}, Refuse(ops.FailureNotFound, "the agent program %q was not found in PATH: %s", bin, hint)
	case err != nil:
		return Program{}, Refuse(ops.FailureNotFound, "the agent program %s cannot be run (%v): %s", bin, withoutPath(err), hint)
	}
	p, err := interpreted(path, bin, envs)
	if err != nil {
		return p, Refuse(ops.FailureNotFound, "the agent program %s cannot be run: %v; %s", path, err, hint)
	}
	return p, nil
}

// mostInterpreters bounds how many scripts interpret each other, as the kernel does.
const mostInterpreters = 4

// interpreted follows the line "#!" of a script. What env would look for is looked for here, first beside the script, where those who
// install both put it.
func interpreted(path, bin string, envs [][]string) (Program, error) {
	p := Program{Path: path, Argv: []string{bin}, File: path}
	start := []string{path}
	for range mostInterpreters {
		words := firstLine(start[0])
		if len(words) == 0 {
			break
		}
		named := filepath.Base(words[0]) == "env"
		if named {
			words = slices.DeleteFunc(words[1:], func(word string) bool { return word == "-S" || strings.Contains(word, "=") })
		}
		if len(words) == 0 {
			return p, errors.New("its first line names no interpreter")
		}
		found, err := lookFor(words[0], filepath.Dir(start[0])+string(os.PathListSeparator)+searchPath(envs...))
		if err != nil {
			return p, fmt.Errorf("it needs %s (%w)", words[0], withoutPath(err))
		}
		p.Needs = append(p.Needs, start[0], found)
		if dir, err := filepath.EvalSymlinks(filepath.Dir(start[0])); err == nil { // links to it may lie in what is hidden
			start[0] = filepath.Join(dir, filepath.Base(start[0]))
		}
		start = slices.Concat([]string{found}, words[1:], start)
		if named {
			p.Path, p.Argv = found, start
		}
	}
	return p, nil
}

// firstLine are the words of the line "#!" of a file; none of a file without one.
func firstLine(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	line, _ := bufio.NewReader(io.LimitReader(file, answerText)).ReadString('\n')
	rest, script := strings.CutPrefix(line, "#!")
	if !script {
		return nil
	}
	return strings.Fields(rest)
}

// lookFor finds a program by its name or its path.
func lookFor(bin, searched string) (string, error) {
	if strings.ContainsRune(bin, filepath.Separator) {
		path, err := filepath.Abs(bin)
		if err == nil {
			err = executable(path)
		}
		return path, err
	}
	for dir := range strings.SplitSeq(searched, string(os.PathListSeparator)) {
		if !filepath.IsAbs(dir) {
			continue // a file in the working folder must not replace the agent
		}
		if path := filepath.Join(dir, bin); executable(path) == nil {
			return path, nil
		}
	}
	return "", errNotInPath
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder")
	case info.Mode()&0o111 == 0:
		return errors.New("it is not executable")
	}
	return nil
}

// withoutPath strips the path from a file error whose message names it already.
func withoutPath(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// TextFile returns an unnamed file that holds a text, to be a program's standard input.
func TextFile(dir, text string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "prompt-*")
	if err == nil {
		err = os.Remove(file.Name())
	}
	if err == nil {
		_, err = io.WriteString(file, text)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, Refuse(ops.FailureStart, "the prompt cannot be written: %v", err)
	}
	return file, nil
}

// WriteFile writes a file that lives as long as the session.
func (p *Prepared) WriteFile(name, text string) error {
	p.Files = append(p.Files, name)
	// A file of another mode could have been left there.
	_ = os.Remove(name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return Refuse(ops.FailureStart, "a file of the agent cannot be written: %v", err)
	}
	return nil
}

// Answer is what a program said to a question such as --version.
type Answer struct {
	ExitCode int    // -1 when it did not end in time or could not be started
	Line     string // the first of its output
	Error    string // the last of its error output, or why it could not be asked
}

// Died says in the program's own last words why it did not answer; empty when it ended well.
func (a Answer) Died() string {
	switch {
	case a.ExitCode == 0:
		return ""
	case a.ExitCode < 0:
		return WithDetail("it did not answer", a.Error)
	}
	return WithDetail(exitText("it", a.ExitCode), a.Error)
}

const answerText = 4 << 10

// Ask runs a program that answers at once. No process of it is left, as with a session.
func Ask(ctx context.Context, program Program) Answer {
	a := Answer{ExitCode: -1}
	p, err := start(program)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	defer p.close()
	first, last := make(chan string, 1), make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(p.stdout, answerText)).ReadString('\n')
		_, _ = io.Copy(io.Discard, p.stdout)
		first <- line
	}()
	go func() { last <- lastWords(p.stderr) }()
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	if p.ended() {
		a.ExitCode = p.exitCode()
	}
	_, err = p.sweep(context.WithoutCancel(ctx))
	p.group.Remove()
	p.stdout.expire()
	p.stderr.expire()
	a.Line, a.Error = <-first, <-last
	if err != nil {
		a.ExitCode, a.Error = -1, err.Error()
	}
	return a
}

// lastWords reads to the end and returns the last words.
func lastWords(in io.Reader) string {
	r := newLineReader(in)
	var last words
	for {
		line, _, err := r.next()
		if err != nil {
			return last.String()
		}
		last.add(clean(string(line)))
	}
}

// words are the last lines of an error output.
type words []string

const keptWords = 6

// add takes a line. What an interpreter adds to an error, such as where it was, would push out the error itself.
func (w *words) add(line string) {
	line = strings.TrimSpace(line)
	if len(line) < 2 || strings.HasPrefix(line, "at ") || strings.HasPrefix(line, "Node.js v") {
		return
	}
	*w = append(*w, cut(line, maxSummary, 0))
	*w = (*w)[max(len(*w)-keptWords, 0):]
}

func (w words) String() string { return strings.Join(w, " | ") }
