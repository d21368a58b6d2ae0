// Package client starts the keeper of the sessions, tells it about them, and notices when it no longer works.
//
// A keeper that died is replaced at once, and the new one is told about the sessions that run. One that lives and does not answer
// is not replaced: no session starts until it answers again or is killed, and after a third of the lease the running sessions are
// stopped, because nobody would end them if this supervisor died now.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"claudeops/internal/agent/keeper"
	"claudeops/internal/agent/process"
	"claudeops/internal/ops"
)

// Options are what a Client works with.
type Options struct {
	Path  string        // of this program
	Lease time.Duration // the keeper kills all sessions after a third of it without a heartbeat
	// Shared means that other hosts take over when the lease ends, so time in which this machine was suspended counts too.
	Shared bool
	// Capabilities are what a keeper that does not run as root needs to end processes of another user.
	Capabilities []uintptr
	Logger       *slog.Logger
}

// errPaused is why sessions are stopped that the keeper has killed.
var errPaused = errors.New("this supervisor was paused for too long, so its keeper ended the session")

// Client is the supervisor's side.
type Client struct {
	ops.Leash // what may run only while there is a keeper; it ends with cause lease when sessions must end because of the keeper

	o    Options
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	sessions map[string][][]byte // the lines that tell a keeper about each
	link     *link               // to the keeper that works; nil while there is none
	quiet    time.Duration       // time without an answer, while this process ran
	fault    error               // why no session may start
	changed  chan struct{}       // closed at the next change
}

// Start starts a keeper and watches it until Close, also after ctx has ended.
func Start(ctx context.Context, o Options) *Client {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Client{
		o: o, stop: stop, done: make(chan struct{}), sessions: map[string][][]byte{}, changed: make(chan struct{}),
	}
	go func() {
		defer close(c.done)
		c.run(ctx)
	}()
	return c
}

// Close ends the keeper. It kills the sessions that were not released.
func (c *Client) Close() error {
	c.stop()
	<-c.done
	return nil
}

func (c *Client) silence() time.Duration { return c.o.Lease / 3 }

// interval is how often the keeper hears from us.
func (c *Client) interval() time.Duration { return c.o.Lease / 24 }

// Trouble is why no session may start, or nil.
func (c *Client) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// Check asks the keeper for a sign of life and waits for it.
func (c *Client) Check(ctx context.Context) error {
	var asked *link
	var number int64
	for {
		c.mu.Lock()
		fault, changed, l := c.fault, c.changed, c.link
		if l != nil && l != asked {
			asked, number = l, l.send([]byte{'\n'})
		}
		answered := l != nil && l.answered >= number
		c.mu.Unlock()
		switch {
		case fault != nil:
			return fault
		case answered:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Register tells the keeper about a session before its first process starts. Started is to be called with that process.
func (c *Client) Register(ctx context.Context, key, group string) (started func(process.Ident), err error) {
	line, err := keeper.Line('+', key, group)
	if err != nil {
		return nil, err
	}
	started = func(id process.Ident) { c.started(key, id) }
	c.mu.Lock()
	c.sessions[key] = [][]byte{line}
	notified := c.link != nil && c.fault == nil
	if notified {
		c.link.send(line)
	}
	c.mu.Unlock()
	if notified {
		return started, nil
	}
	if err := c.Check(ctx); err != nil { // a new keeper is told about all sessions first
		c.Release(key)
		return nil, err
	}
	return started, nil
}

// started tells the keeper about the first process of a session.
func (c *Client) started(key string, id process.Ident) {
	line, err := keeper.Line('=', key, strconv.Itoa(id.PID), id.Started)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions[key] = append(c.sessions[key], line)
	if c.link != nil {
		c.link.send(line)
	}
}

// Release tells the keeper that a session has ended.
func (c *Client) Release(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, key)
	if line, err := keeper.Line('-', key); err == nil && c.link != nil {
		c.link.send(line)
	}
}

// run keeps a keeper running until ctx ends.
func (c *Client) run(ctx context.Context) {
	for ctx.Err() == nil {
		l, err := c.connect()
		if err != nil {
			c.failed(fmt.Errorf("the keeper, which ends agents when this supervisor dies, cannot be started, so no session starts: %w", err))
			ops.Pause(ctx, c.interval())
			c.pass()
			continue
		}
		c.watch(ctx, l)
		if ctx.Err() == nil && l.answered == 0 {
			c.failed(errors.New("the keeper, which ends agents when this supervisor dies, ends at once, so no session starts"))
			ops.Pause(ctx, c.interval())
			c.pass()
		}
	}
}

// connect starts a keeper and tells it about all sessions.
func (c *Client) connect() (*link, error) {
	clock := keeper.ClockAwake
	if c.o.Shared {
		clock = keeper.ClockBoot
	}
	l, err := start(c.o.Path, c.silence(), clock, c.o.Capabilities)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lines := range c.sessions {
		for _, line := range lines {
			l.send(line)
		}
	}
	l.send([]byte{'\n'})
	c.link = l
	c.notify()
	go func() {
		defer close(l.gone)
		l.read(func(n int64) { c.heard(l, n) }, func() { c.endSessions(errPaused) })
	}()
	return l, nil
}

// watch sends heartbeats until the keeper or ctx ends.
func (c *Client) watch(ctx context.Context, l *link) {
	ticker := time.NewTicker(c.interval())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			l.close()
			return
		case <-l.gone:
			c.mu.Lock()
			c.link = nil
			c.notify()
			c.mu.Unlock()
			c.o.Logger.ErrorContext(ctx, "the keeper of the sessions ended; starting another", "pid", l.pid(), "exit", l.wait())
			return
		case <-ticker.C:
			c.mu.Lock()
			l.beat()
			c.mu.Unlock()
			c.pass()
		}
	}
}

// heard notes answers.
func (c *Client) heard(l *link, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.answered += n
	if l != c.link || l.answered < l.sent {
		c.quiet = 0
		c.notify()
		return
	}
	if c.fault != nil {
		c.o.Logger.Info("the keeper of the sessions works again", "pid", l.pid())
	}
	c.quiet, c.fault = 0, nil
	c.notify()
}

// pass counts one interval without an answer. Counting intervals and not time means that a pause of this process is not held
// against the keeper.
func (c *Client) pass() {
	c.mu.Lock()
	c.quiet += c.interval()
	late := c.quiet > c.silence()
	stalled := late && c.fault == nil && c.link != nil
	pid := 0
	if c.link != nil {
		pid = c.link.pid()
	}
	c.mu.Unlock()
	if stalled {
		c.failed(fmt.Errorf("the keeper, which ends agents when this supervisor dies, does not answer (process %d, is it stopped?): "+
			"no session starts until it answers or is killed; then another one is started", pid))
	}
	if late {
		c.endSessions(c.Trouble())
	}
}

// failed notes why no session may start.
func (c *Client) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil {
		c.o.Logger.Error("no session can start", "error", err)
	}
	c.fault = err
	c.notify()
}

// endSessions stops the sessions that run now.
func (c *Client) endSessions(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions) > 0 && why != nil {
		c.o.Logger.Error("stopping agents", "reason", why)
		c.Pull(ops.Stop(ops.StopLease, why.Error()))
		c.Loosen()
	}
}

// notify wakes everybody who waits for a change. The caller holds the lock.
func (c *Client) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

const (
	// writeTime bounds a write into a pipe that nobody reads.
	writeTime = time.Second
	// closeTime is how long the keeper may take to end what is left.
	closeTime = 5 * time.Second
	// mostUnanswered keeps the pipe to a stopped keeper from filling.
	mostUnanswered = 1000
)

// link is a running keeper and the pipes to it.
type link struct {
	cmd      *exec.Cmd
	to       *os.File
	from     *os.File
	gone     chan struct{} // closed when it answers no more
	waited   chan struct{}
	sent     int64 // lines; guarded by the client, like answered
	answered int64
}

// start starts a keeper in a POSIX session of its own, so that a terminal's signals do not reach it, and without any variable that
// could hold a secret.
func start(path string, silence time.Duration, clock string, capabilities []uintptr) (*link, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe: %w", err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		_, _ = in.Close(), to.Close()
		return nil, fmt.Errorf("open pipe: %w", err)
	}
	cmd := exec.Command(path, keeper.Word, silence.String(), clock) //nolint:gosec,noctx // this program; it ends with its pipe
	cmd.Dir, cmd.Env = "/", []string{"GOMAXPROCS=1"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
	cmd.SysProcAttr = attributes(capabilities)
	err = cmd.Start()
	_, _ = in.Close(), out.Close()
	if err != nil {
		_, _ = to.Close(), from.Close()
		return nil, err
	}
	l := &link{cmd: cmd, to: to, from: from, gone: make(chan struct{}), waited: make(chan struct{})}
	go func() {
		defer close(l.waited)
		_ = cmd.Wait() // how it ended is in its state
	}()
	return l, nil
}

func (l *link) pid() int { return l.cmd.Process.Pid }

// send writes a line and returns its number. A keeper that missed a line is ended, because another one is told everything; the pipe of
// one that is gone says so to the reader.
func (l *link) send(line []byte) int64 {
	_ = l.to.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := l.to.Write(line); err != nil && !errors.Is(err, os.ErrClosed) {
		_ = l.cmd.Process.Kill()
	}
	l.sent++
	return l.sent
}

// beat sends a heartbeat.
func (l *link) beat() {
	if l.sent-l.answered < mostUnanswered {
		l.send([]byte{'\n'})
	}
}

// read counts answers until the keeper is gone.
func (l *link) read(heard func(n int64), ending func()) {
	buf := make([]byte, 512)
	for {
		n, err := l.from.Read(buf)
		answers := int64(0)
		for _, b := range buf[:n] {
			if b == keeper.Ending {
				ending()
			} else {
				answers++
			}
		}
		if answers > 0 {
			heard(answers)
		}
		if err != nil {
			return
		}
	}
}

// wait returns how the keeper ended.
func (l *link) wait() string {
	l.close()
	return l.cmd.ProcessState.String()
}

// close lets the keeper end. One that does not is killed.
func (l *link) close() {
	_ = l.to.Close()
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-l.waited:
	case <-timer.C:
		_ = l.cmd.Process.Kill()
		<-l.waited
	}
	<-l.gone
	_ = l.from.Close()
}
