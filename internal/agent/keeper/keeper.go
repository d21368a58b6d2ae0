// Package keeper is a small process beside the supervisor. It ends the processes of all sessions when the supervisor dies or is
// silent for too long, because nobody else on this host can do that in time: another host takes over when the lease ends.
//
// The supervisor starts it, writes lines to its standard input and reads one byte for each line from its standard output:
//
//	(an empty line)          a heartbeat
//	+KEY TAB GROUP           a session is about to start; GROUP is the folder of its control group, or empty
//	=KEY TAB PID TAB STARTED its first process runs
//	-KEY                     the session has ended
//
// A line in the pipe is read even if the supervisor dies right after writing it, so a session is known before it starts without
// waiting for an answer. The keeper runs before the rest of the program is initialized, so that it needs little memory; therefore it
// imports little. The package claudeops/internal/guard/early says why this works.
package keeper

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/internal/agent/process"
)

// Word makes this program the keeper: WORD SILENCE CLOCK.
const Word = "session-keeper"

func init() { //nolint:gochecknoinits // see the package comment
	if len(os.Args) > 1 && os.Args[1] == Word {
		syscall.Exit(run(os.Args[2:])) // nothing else is to be cleaned up
	}
}

// How silence is measured.
const (
	// ClockBoot counts all time, also while this machine is suspended: other hosts count it too.
	ClockBoot = "boot"
	// ClockAwake counts the time in which the keeper itself ran: nobody else could have taken over.
	ClockAwake = "awake"
)

// What the supervisor reads.
const (
	Answer = '.'
	Ending = '!' // the supervisor was silent for too long, and all sessions are killed
)

// run works until the supervisor is gone, and returns the exit code.
func run(args []string) int {
	if len(args) != 2 {
		return 2
	}
	silence, err := time.ParseDuration(args[0])
	if err != nil || silence <= 0 {
		return 2
	}
	ignoreSignals()
	k := &keeper{sessions: map[string]*session{}, silence: silence, boot: args[1] == ClockBoot, now: uptime, answer: 1}
	why := k.watch(os.Stdin)
	if why == silent {
		write(1, []byte{Ending})
	}
	if n := len(k.sessions); n > 0 || why == silent {
		killed := k.killAll()
		write(2, fmt.Appendf(nil, "claudeops keeper: %s; killed %d processes of %d sessions\n", why, killed, n))
	}
	return 0
}

// write ignores errors: the other side may be dead. A file would end the program if it is.
func write(fd int, text []byte) { _, _ = syscall.Write(fd, text) }

type session struct {
	group *process.Cgroup
	roots []process.Ident
}

type keeper struct {
	sessions map[string]*session
	silence  time.Duration
	boot     bool
	now      func() time.Duration
	answer   int // the descriptor for answers
}

// Why the keeper ends everything.
const (
	silent = "the supervisor is silent"
	gone   = "the supervisor is gone"
)

// watch reads what the supervisor writes until it is gone or silent for too long.
func (k *keeper) watch(in *os.File) (why string) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		r := bufio.NewReader(in)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	tick := k.silence / 8
	timer := time.NewTicker(tick)
	defer timer.Stop()
	last, quiet := k.now(), time.Duration(0)
	for {
		var line string
		heard := false
		select {
		case text, ok := <-lines:
			if !ok {
				return gone
			}
			line, heard = text, true
		case <-timer.C:
		}
		now := k.now()
		since := now - last
		last = now
		if !k.boot {
			since = min(since, 2*tick) // more passed only if this process did not run either
		}
		if quiet += since; quiet > k.silence {
			return silent
		}
		if heard {
			quiet = 0
			k.take(line)
			write(k.answer, []byte{Answer})
		}
	}
}

// take follows one line. One that is not understood still counts as a sign of life.
func (k *keeper) take(line string) {
	if line == "" {
		return
	}
	fields := strings.Split(line[1:], "\t")
	key := fields[0]
	switch {
	case line[0] == '+' && len(fields) == 2:
		s := &session{}
		if fields[1] != "" {
			s.group = &process.Cgroup{Path: fields[1]}
		}
		k.sessions[key] = s
	case line[0] == '=' && len(fields) == 3 && k.sessions[key] != nil:
		if pid, err := strconv.Atoi(fields[1]); err == nil && pid > 1 {
			k.sessions[key].roots = append(k.sessions[key].roots, process.Ident{PID: pid, Started: fields[2]})
		}
	case line[0] == '-':
		delete(k.sessions, key)
	}
}

// killAll kills the control groups first, because that takes no time, then whatever else belongs to the sessions.
func (k *keeper) killAll() int {
	for _, s := range k.sessions {
		if s.group != nil {
			s.group.Kill()
		}
	}
	var all sync.WaitGroup
	counts := make(chan int, len(k.sessions))
	for key, s := range k.sessions {
		all.Go(func() {
			killed, _ := (&process.Sweeper{Key: key, Group: s.group, Roots: s.roots}).Run(context.Background())
			s.group.Remove()
			counts <- killed
		})
	}
	all.Wait()
	close(counts)
	total := 0
	for n := range counts {
		total += n
	}
	return total
}

// Line is the text of a message. A key or path that would break it is refused.
func Line(kind byte, fields ...string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte(kind)
	for i, f := range fields {
		if strings.ContainsAny(f, "\t\n") {
			return nil, fmt.Errorf("tell keeper: %q cannot be sent", f)
		}
		if i > 0 {
			b.WriteByte('\t')
		}
		b.WriteString(f)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
