package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/agent/claude"
	"claudeops/internal/config"
	"claudeops/internal/watch/survey"
)

// interview looks at this machine and asks what belongs into the configuration. It writes nothing.
func (a beginning) interview(ctx context.Context) (out answers, err error) {
	p := &prompter{out: a.Stderr, in: make(chan line), screen: screenOf(a.Stderr, a.noColor, a.Environ)}
	go p.read(a.Stdin)
	defer func() {
		if err != nil {
			fmt.Fprint(p.out, "\nNothing was written.")
		}
		fmt.Fprintln(p.out)
	}()
	fmt.Fprintln(p.out, p.strong("Looking at this machine. Nothing is changed. Ctrl-C ends this and writes nothing."))
	found := a.lookAround(ctx, p)
	out.socket = found.socket
	if out.services, err = p.whichServices(ctx, found.services); err != nil {
		return out, err
	}
	if out.agent, err = p.whichAgent(ctx, found.programs); err != nil {
		return out, err
	}
	if out.targets, out.api, err = p.whichTarget(ctx); err != nil {
		return out, err
	}
	out.suggest, err = p.yesNo(ctx, "Let agents only look and propose at first? Otherwise they repair after your approval.")
	return out, err
}

// surroundings are what runs and what is installed here.
type surroundings struct {
	services []survey.Service
	programs []survey.Program
	socket   string // of the Docker engine, if it is not the usual one
}

// lookAround finds what runs and what is installed here, and shows each step while it takes place.
func (a beginning) lookAround(ctx context.Context, p *prompter) (out surroundings) {
	var containers []survey.Container
	p.step("containers of the Docker engine", func() (int, error) {
		socket, ok := strings.CutPrefix(cmp.Or(a.variable("DOCKER_HOST"), "unix://"+config.DefaultDockerSocket), "unix://")
		if !ok || !filepath.IsAbs(socket) {
			return 0, errors.New("DOCKER_HOST is not a Unix socket")
		}
		var err error
		if containers, err = survey.Containers(ctx, socket); err == nil && socket != config.DefaultDockerSocket {
			out.socket = socket
		}
		return len(containers), err
	})
	var units []survey.Unit
	p.step("systemd units", func() (int, error) {
		systemctl, err := lookIn(a.variable("PATH"), "systemctl")
		if err != nil {
			return 0, errors.New("systemctl is not installed")
		}
		units, err = survey.Units(ctx, systemctl)
		return len(units), err
	})
	var listeners []survey.Listener
	p.step("listening ports", func() (n int, err error) {
		listeners, err = survey.Listeners("/proc")
		return len(listeners), err
	})
	p.step("agent CLIs", func() (int, error) {
		out.programs = survey.Programs(ctx, a.variable("PATH"))
		return len(out.programs), nil
	})
	out.services = survey.Services(containers, units, listeners)
	p.step("ports that speak HTTP", func() (n int, err error) {
		survey.AskHTTP(ctx, out.services)
		for _, s := range out.services {
			for _, status := range s.Answers {
				if status > 0 {
					n++
				}
			}
		}
		return n, nil
	})
	return out
}

// lookIn finds a program in the folders of a list such as PATH.
func lookIn(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("find %s: %w", name, exec.ErrNotFound)
}

// prompter asks a person at a terminal.
type prompter struct {
	out    io.Writer
	in     chan line
	screen screen
}

// line is a line that was typed, or the reason why no more come.
type line struct {
	text string
	err  error
}

// read passes the typed lines on. It stays blocked in the terminal when the program ends.
func (p *prompter) read(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadString('\n')
		p.in <- line{strings.TrimSpace(text), err}
		if err != nil {
			return
		}
	}
}

func (p *prompter) strong(text string) string {
	if !p.screen.color {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// step shows what is looked for, then how many were found or why none.
func (p *prompter) step(what string, look func() (int, error)) {
	fmt.Fprintf(p.out, "  %s … ", what)
	n, err := look()
	switch {
	case err != nil:
		fmt.Fprintln(p.out, "not available: "+shorten(clean(reasonOf(err)), 90))
	case n == 0:
		fmt.Fprintln(p.out, "none")
	default:
		fmt.Fprintln(p.out, n)
	}
}

// reasonOf is the innermost reason of an error, which is the part that a person can act on.
func reasonOf(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// ask repeats a question until use finds no problem with the answer. An empty answer is the preset one.
func (p *prompter) ask(ctx context.Context, question, preset string, use func(string) (problem string)) error {
	for {
		fmt.Fprint(p.out, p.strong(question))
		if preset != "" {
			fmt.Fprintf(p.out, " [%s]", preset)
		}
		fmt.Fprint(p.out, ": ")
		var typed line
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case typed = <-p.in:
		}
		// Ctrl-C also ends the line that is being typed.
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if typed.err != nil {
			return fmt.Errorf("read answer: the input ended: %w", errInterrupted)
		}
		problem := use(or(typed.text, preset))
		if problem == "" {
			return nil
		}
		if p.screen.color {
			problem = paint(problem, yellow)
		}
		fmt.Fprintln(p.out, "  "+problem)
	}
}

// yesNo asks for a yes, unless it is denied.
func (p *prompter) yesNo(ctx context.Context, question string) (yes bool, err error) {
	err = p.ask(ctx, question, "Y/n", func(text string) string {
		switch strings.ToLower(text) {
		case "y/n", "y", "yes":
			yes = true
		case "n", "no":
			yes = false
		default:
			return "Answer y or n."
		}
		return ""
	})
	return yes, err
}

func (p *prompter) whichServices(ctx context.Context, found []survey.Service) (chosen []survey.Service, err error) {
	if len(found) == 0 {
		fmt.Fprintln(p.out, "\nNo services were found. Add yours to the configuration later.")
		return nil, nil
	}
	fmt.Fprintln(p.out, "\nServices on this machine:")
	var rows []string
	for i, s := range found {
		rows = append(rows, tabbed(fmt.Sprintf("  %d", i+1), clean(s.Name), clean(s.Detail)))
	}
	fmt.Fprint(p.out, screen{width: p.screen.width}.table(rows[0], rows[1:]))
	err = p.ask(ctx, "Which ones should be watched? Numbers such as 1,3-5, or all, or none", "all", func(text string) string {
		numbers, problem := numbersIn(text, len(found))
		chosen = nil
		for _, n := range numbers {
			chosen = append(chosen, found[n-1])
		}
		return problem
	})
	if err != nil || len(chosen) == 0 {
		return chosen, err
	}
	return chosen, p.whichNames(ctx, found, chosen)
}

// Compiled once; read only.
var newName = regexp.MustCompile(`^(\d+)=([A-Za-z0-9][A-Za-z0-9_.@-]*)$`)

// whichNames asks how the services are to be called. They have the numbers of the list.
func (p *prompter) whichNames(ctx context.Context, found, chosen []survey.Service) error {
	example := fmt.Sprintf("%d=shop", 1+slices.IndexFunc(found, func(s survey.Service) bool { return s.Name == chosen[0].Name }))
	return p.ask(ctx, "Other names for them? Such as "+example, "keep", func(text string) string {
		named := slices.Clone(chosen)
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
			if strings.EqualFold(text, "keep") {
				break
			}
			m := newName.FindStringSubmatch(part)
			i := -1
			if m != nil {
				n, err := strconv.Atoi(m[1])
				if err == nil && n > 0 && n <= len(found) {
					i = slices.IndexFunc(chosen, func(s survey.Service) bool { return s.Name == found[n-1].Name })
				}
			}
			if i < 0 {
				return fmt.Sprintf("%q does not name a chosen service: type its number and a name without blanks, such as %s, or keep.",
					clean(part), example)
			}
			named[i].Name = m[2]
		}
		for i, s := range named {
			if slices.ContainsFunc(named[:i], func(o survey.Service) bool { return o.Name == s.Name }) {
				return fmt.Sprintf("Two services would be called %q.", s.Name)
			}
		}
		copy(chosen, named)
		return ""
	})
}

// numbersIn reads a list such as 1,3-5 of numbers from 1 to most.
func numbersIn(text string, most int) (out []int, problem string) {
	switch strings.ToLower(text) {
	case "none":
		return nil, ""
	case "all":
		text = fmt.Sprintf("1-%d", most)
	}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		from, to, span := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && span {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 1 || last > most || last < first {
			return nil, fmt.Sprintf("%q is not in the list. Type numbers from 1 to %d such as 1,3-5, or all, or none.", clean(part), most)
		}
		for n := first; n <= last; n++ {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), ""
}

// whichAgent asks for the agent CLI. Claude Ops has adapters for two.
func (p *prompter) whichAgent(ctx context.Context, found []survey.Program) (chosen string, err error) {
	var usable, others []survey.Program
	for _, f := range found {
		if f.Name == agentClaude || f.Name == agentCodex {
			usable = append(usable, f)
		} else {
			others = append(others, f)
		}
	}
	fmt.Fprintln(p.out)
	if len(usable) == 0 {
		fmt.Fprintln(p.out, "Neither Claude Code nor Codex is installed. The configuration uses Claude Code. "+claude.InstallHint+".")
		return agentClaude, nil
	}
	fmt.Fprintln(p.out, "Agent CLIs on this machine:")
	for i, f := range usable {
		fmt.Fprintf(p.out, "  %d  %s %s  %s\n", i+1, f.Name, or(f.Version, "(version unknown)"), clean(f.Path))
	}
	for _, f := range others {
		fmt.Fprintf(p.out, "  -  %s %s  can be used as a handler with agent: command\n", f.Name, f.Version)
	}
	err = p.ask(ctx, "Which one should run?", "1", func(text string) string {
		n, err := strconv.Atoi(text)
		if i := slices.IndexFunc(usable, func(f survey.Program) bool { return strings.EqualFold(f.Name, text) }); i >= 0 {
			n, err = i+1, nil
		}
		if err != nil || n < 1 || n > len(usable) {
			return fmt.Sprintf("%q is not in the list. Type its number or its name.", clean(text))
		}
		chosen = usable[n-1].Name
		return ""
	})
	return chosen, err
}

// Compiled once; read only.
var targetShape = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://\S+$`)

// whichTarget asks where notifications go: an Apprise URL, or the address of an Apprise API server.
func (p *prompter) whichTarget(ctx context.Context) (targets, api string, err error) {
	fmt.Fprintln(p.out, "\nNotifications: ntfy://…, tgram://… with buttons, or through Apprise mailto://… and many more.")
	fmt.Fprintln(p.out, "http://… is the address of an Apprise API server.")
	err = p.ask(ctx, "Where should notifications go? A URL, or none", "none", func(text string) string {
		targets, api = "", ""
		switch {
		case strings.EqualFold(text, "none"):
		case !targetShape.MatchString(text):
			return "This is not a URL. Type something like ntfy://ntfy.sh/my-topic, or none."
		case strings.HasPrefix(text, "http://"), strings.HasPrefix(text, "https://"):
			api = text
		default:
			targets = text
		}
		return ""
	})
	return targets, api, err
}
