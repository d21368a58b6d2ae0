package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"claudeops/test/testtoken"
)

// mode is how the program is run.
type mode string

const (
	modeOnce  mode = "once"
	modeServe mode = "serve"
)

// patience is how long anything may take on a machine that has other things to do.
const patience = 90 * time.Second

// process is a start of the program under trial.
type process struct {
	cmd   *exec.Cmd
	addr  string
	begun time.Time
	out   *output
	done  chan struct{} // closed once it has ended
	ended time.Time
}

// start starts the program in the box.
func (b *box) start(ctx context.Context, m mode, env ...string) (*process, error) {
	argv := append(append([]string{}, b.wrap...), b.program, string(m))
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), out: &output{}, done: make(chan struct{})} //nolint:gosec,noctx // the program under trial
	p.cmd.Dir = b.dir
	p.cmd.Env = append(append([]string{}, b.env...), env...)
	if m == modeServe {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find address: %w", err)
		}
		p.addr = ln.Addr().String()
		if err := ln.Close(); err != nil {
			return nil, fmt.Errorf("find address: %w", err)
		}
		p.cmd.Env = append(p.cmd.Env, "CLAUDEOPS_LISTEN="+p.addr)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.begun = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", m, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		p.ended = time.Now()
		close(p.done)
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// killed reports whether SIGKILL ended it. It must have ended.
func (p *process) killed() bool {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

func (p *process) code() int { return p.cmd.ProcessState.ExitCode() }

func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for its end.
func (p *process) wait() error {
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		p.signal(syscall.SIGQUIT) // it says where it stands
		<-time.After(time.Second)
		p.signal(syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("the program does not end:\n%s", p.out.tail())
	}
}

// until waits for something that becomes true while the program runs. Its end before that is an error.
func (p *process) until(what string, cond func() bool) error { return p.within(patience, what, cond) }

func (p *process) within(limit time.Duration, what string, cond func() bool) error {
	for begun := time.Now(); !cond(); <-time.After(10 * time.Millisecond) {
		if p.over() {
			return fmt.Errorf("%w before: %s\n%s", errEnded, what, p.out.tail())
		}
		if time.Since(begun) > limit {
			return fmt.Errorf("did not come true within %s: %s\n%s", limit, what, p.out.tail())
		}
	}
	return nil
}

var errEnded = errors.New("the program ended")

// get asks a page of a serving program.
func (p *process) get(path string) (int, string) {
	client := &http.Client{Timeout: 20 * time.Second, Transport: testtoken.Transport{}}
	resp, err := client.Get("http://" + p.addr + path) //nolint:noctx // it has a time-out
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// submit asks a serving program for a cycle.
func (p *process) submit(body string) (int, string) {
	return p.post("/api/v1/cycles", body)
}

func (p *process) ready() error {
	return p.until("it is ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
}

// stop ends a serving program in good order.
func (p *process) stop() error {
	p.signal(syscall.SIGTERM)
	if err := p.wait(); err != nil {
		return err
	}
	if p.code() != 0 {
		return fmt.Errorf("serve exits %d:\n%s", p.code(), p.out.tail())
	}
	return nil
}

// output keeps what the program printed.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) tail() string {
	const most = 4000
	text := o.String()
	return text[max(0, len(text)-most):]
}
