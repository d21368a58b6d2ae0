package agenttest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/agent/keyproxy"
	"claudeops/internal/agent/scripted"
)

// RunIfFake plays the scenario and exits when the test binary was started as the fake. TestMain
// calls it before anything else.
func RunIfFake() {
	if len(os.Args) < 3 || os.Args[1] != marker {
		return
	}
	code, err := runFake(os.Args[2], os.Args[3:])
	if err != nil {
		_, _ = io.WriteString(os.Stderr, "fake agent: "+err.Error()+"\n")
		code = 97
	}
	os.Exit(code)
}

func runFake(dir string, args []string) (int, error) {
	data, err := os.ReadFile(filepath.Join(dir, scenarioFile))
	if err != nil {
		return 0, err
	}
	var s Scenario
	if err := json.Unmarshal(data, &s); err != nil {
		return 0, fmt.Errorf("read scenario: %w", err)
	}
	if role, _ := (Call{Env: os.Environ()}).Var("CLAUDEOPS_ROLE"); role == "trial" { //nolint:forbidigo // of this run
		return 0, Trial(args)
	}
	call, err := record(filepath.Join(dir, callsFolder), args)
	if err != nil {
		return 0, err
	}
	for _, p := range s.Plays {
		if p.fits(call) {
			f := &fake{
				play: p, call: call, out: bufio.NewWriterSize(os.Stdout, 64<<10), refused: map[string]string{}, open: map[string]bool{},
			}
			settings, _ := call.Option("--settings")
			if f.hook, err = scripted.HookIn(settings); err != nil {
				return 0, err
			}
			return f.run()
		}
	}
	return 0, fmt.Errorf("the scenario has no play for run %d of tier %d as %s (handler %q)",
		call.Attempt, call.Tier, call.Role, call.Handler)
}

// Trial does what the real program does in a trial: it asks the model, its hook about the calls it is asked for, and the model again.
func Trial(args []string) error {
	settings, _ := (Call{Args: args}).Option("--settings")
	hook, err := scripted.HookIn(settings)
	if err != nil {
		return err
	}
	for _, c := range []scripted.Call{
		{Tool: "Bash", Input: json.RawMessage(`{"command":"true"}`), ID: keyproxy.PlayedCommand},
		{Tool: "Write", Input: json.RawMessage(`{"file_path":"/nonexistent","content":""}`), ID: keyproxy.PlayedFile},
	} {
		if reason := hook.Ask(context.Background(), c, nil); reason == "" {
			return fmt.Errorf("the trial let %s run", c.Tool)
		}
	}
	body := strings.NewReader(keyproxy.PlayedCommand + keyproxy.PlayedFile)
	//nolint:forbidigo // of this run
	req, err := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", body)
	if err != nil {
		return err
	}
	req.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY")) //nolint:forbidigo // of this run
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func (p Play) fits(c Call) bool {
	return (p.Tier == 0 || p.Tier == c.Tier) && (p.Attempt == 0 || p.Attempt == c.Attempt) &&
		cmp.Or(p.Role, roleWork) == c.Role && (p.Handler == "" || p.Handler == c.Handler) && (p.Cycle == 0 || p.Cycle == c.Cycle)
}

const roleWork = "work"

// record notes the call where the test finds it and counts the runs of its tier in its role.
func record(dir string, args []string) (Call, error) {
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return Call{}, fmt.Errorf("read standard input: %w", err)
	}
	wd, err := os.Getwd()
	if err != nil {
		return Call{}, err
	}
	//nolint:forbidigo // the test wants to know what the environment was
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return entry == raceOption })
	c := Call{Args: args, Env: env, Dir: wd, Stdin: string(stdin), PID: os.Getpid(), Attempt: 1}
	for name, number := range map[string]*int{"CLAUDEOPS_TIER": &c.Tier, "CLAUDEOPS_CYCLE_ID": &c.Cycle} {
		if text, ok := c.Var(name); ok {
			if *number, err = strconv.Atoi(text); err != nil {
				return Call{}, fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
	c.Role, _ = c.Var("CLAUDEOPS_ROLE")
	c.Role = cmp.Or(c.Role, roleWork)
	c.Handler, _ = c.Var("CLAUDEOPS_HANDLER")
	before, err := readCalls(dir)
	if err != nil {
		return Call{}, err
	}
	for _, b := range before {
		if b.Tier == c.Tier && b.Role == c.Role {
			c.Attempt++
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return Call{}, err
	}
	tmp := filepath.Join(dir, rand.Text()+".tmp") // in a pid namespace, every agent has the same number
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return Call{}, err
	}
	for n := len(before) + 1; ; n++ {
		// A link never replaces another run's note, and is never seen half written.
		err := os.Link(tmp, filepath.Join(dir, fmt.Sprintf("%06d.json", n)))
		if err == nil || !errors.Is(err, os.ErrExist) {
			return c, errors.Join(err, os.Remove(tmp))
		}
	}
}

// fake is one run.
type fake struct {
	play    Play
	call    Call
	out     *bufio.Writer
	hook    scripted.Hook     // asked before every tool call; empty when there is none
	refused map[string]string // by the id of the call: why
	open    map[string]bool   // the tool calls that were not answered yet
	asked   chan os.Signal    // to end at the next boundary; nil when the play ignores it
}

func (f *fake) run() (int, error) {
	f.heedInterrupt()
	for _, step := range f.play.Steps {
		if err := f.step(step); err != nil {
			return 0, err
		}
		if err := f.out.Flush(); err != nil {
			return 0, err
		}
		if f.rest(step) {
			_, err := io.WriteString(os.Stdout, f.expand(Interrupted(), 0)+"\n")
			return 1, err
		}
	}
	if f.play.Handoff != "" {
		dir, _ := f.call.Var("CLAUDEOPS_STATE_DIR")
		if err := os.WriteFile(filepath.Join(dir, "handoff.json"), []byte(f.play.Handoff), 0o600); err != nil {
			return 0, err
		}
	}
	return f.play.Exit, nil
}

func (f *fake) heedInterrupt() {
	switch f.play.OnInterrupt {
	case "ignore":
		signal.Ignore(os.Interrupt)
	case "result":
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, os.Interrupt)
		go func() {
			<-heard
			line := f.expand(Interrupted(), 0) + "\n"
			_, _ = io.WriteString(os.Stdout, line)
			os.Exit(1)
		}()
	case "boundary":
		f.asked = make(chan os.Signal, 1)
		signal.Notify(f.asked, os.Interrupt)
	}
}

// rest lets the time of a step pass and reports whether the run is to end now: it was interrupted, and no tool call is open.
func (f *fake) rest(s Step) (ends bool) {
	limit := s.Sleep
	if s.Hang {
		limit = time.Minute // a fake never outlives its test for long
	}
	asked := f.asked
	if len(f.open) > 0 {
		asked = nil
	}
	if limit == 0 {
		select {
		case <-asked:
			return true
		default:
			return false
		}
	}
	select {
	case <-asked:
		return true
	case <-time.After(limit):
		return false
	}
}

// note keeps track of which tool calls are open.
func (f *fake) note(line string) {
	if f.asked == nil {
		return
	}
	var e struct {
		Message struct {
			Content []struct {
				ID        string `json:"id"`
				ToolUseID string `json:"tool_use_id"`
			} `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal([]byte(line), &e) != nil {
		return
	}
	for _, b := range e.Message.Content {
		if b.ID != "" {
			f.open[b.ID] = true
		}
		delete(f.open, b.ToolUseID)
	}
}

func (f *fake) step(s Step) error {
	s.Out, s.Raw, s.Err = f.expand(s.Out, s.Size), f.expand(s.Raw, s.Size), f.expand(s.Err, s.Size)
	s.Out = f.answered(s.Out)
	for n := range max(s.Repeat, 1) {
		if err := f.print(s, strconv.Itoa(n+1)); err != nil {
			return err
		}
	}
	f.askHook(s.Out)
	if s.Spawn != nil {
		if err := spawn(*s.Spawn); err != nil {
			return err
		}
	}
	if s.Run != "" {
		cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", f.expand(s.Run, 1))
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("run %q: %w", s.Run, err)
		}
	}
	f.note(s.Out)
	return nil
}

func (f *fake) print(s Step, n string) error {
	if s.Err != "" {
		if _, err := io.WriteString(os.Stderr, strings.ReplaceAll(s.Err, "{{n}}", n)+"\n"); err != nil {
			return err
		}
	}
	text := s.Raw
	if s.Out != "" {
		text += s.Out + "\n"
	}
	text = strings.ReplaceAll(text, "{{n}}", n)
	if s.Chunk <= 0 {
		_, err := f.out.WriteString(text)
		return err
	}
	for piece := range slices.Chunk([]byte(text), s.Chunk) {
		if _, err := os.Stdout.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) sessionID() string {
	id, _ := f.call.Option("--session-id")
	return id
}

// expand replaces what is the same in every repetition.
func (f *fake) expand(text string, size int) string {
	model, _ := f.call.Option("--model")
	return strings.NewReplacer(
		"{{session_id}}", f.sessionID(),
		"{{model}}", model,
		"{{tier}}", strconv.Itoa(f.call.Tier),
		"{{pad}}", strings.Repeat("x", size),
	).Replace(text)
}

// spawn starts a process and leaves it.
func spawn(c Child) error {
	script := "i=0; while [ $i -lt 6000 ]; do sleep 0.1; i=$((i+1)); done"
	if c.Command != "" {
		script = c.Command
	}
	if c.IgnoreSignals {
		script = "trap '' INT TERM HUP; " + script
	}
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: c.Setsid}
	if c.KeepOutput {
		cmd.Stdout = os.Stdout
	}
	if c.EmptyEnv {
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
	}
	return cmd.Start()
}
