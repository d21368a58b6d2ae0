package client

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"claudeops/internal/agent/keeper"
)

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
