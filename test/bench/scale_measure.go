package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// meter reads what a PostgreSQL server and the processes around it have used so far. It asks from another database than the measured one,
// so that its own questions do not count.
type meter struct {
	conn     *pgx.Conn
	server   int      // process id of the server
	cells    []string // databases
	programs []int    // daemons
}

func newMeter(ctx context.Context, address string, cells []string, programs ...int) (*meter, error) {
	conn := must(pgx.Connect(ctx, address))
	m := &meter{conn: conn, cells: cells, programs: programs}
	var backend int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	fields, err := statOf(backend)
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	m.server = fields.parent
	return m, nil
}

// reading is what was used up to a moment.
type reading struct {
	at                                   time.Time
	commits, rows, flushes, wal, size    float64
	database, supervisors, agents, other time.Duration
}

func (r reading) minus(s reading) reading {
	return reading{
		at: r.at, commits: r.commits - s.commits, rows: r.rows - s.rows, flushes: r.flushes - s.flushes, wal: r.wal - s.wal,
		size: r.size - s.size, database: r.database - s.database, supervisors: r.supervisors - s.supervisors, agents: r.agents - s.agents,
		other: r.other - s.other,
	}
}

// statsDelay is how long a backend may keep its counts to itself.
const statsDelay = 2 * time.Second

func (m *meter) read(ctx context.Context) (r reading, err error) {
	<-time.After(statsDelay)
	r.at = time.Now()
	err = m.conn.QueryRow(ctx, `SELECT SUM(xact_commit), SUM(tup_inserted + tup_updated + tup_deleted), SUM(pg_database_size(datname)),
		(pg_current_wal_lsn() - '0/0'), (SELECT wal_sync FROM pg_stat_wal) FROM pg_stat_database WHERE datname = ANY($1)`, m.cells).
		Scan(&r.commits, &r.rows, &r.size, &r.wal, &r.flushes)
	if err != nil {
		return r, fmt.Errorf("read statistics: %w", err)
	}
	return r, m.readProcesses(&r)
}

// readProcesses adds the processor times: of the server, of the daemons, and of what they have started.
func (m *meter) readProcesses(r *reading) error {
	entries := must(os.ReadDir("/proc"))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil && (s.parent == m.server || pid == m.server) {
			r.database += s.own
			if pid == m.server {
				r.database += s.children
			}
		}
	}
	for _, pid := range m.programs {
		s := must(statOf(pid))
		r.supervisors, r.agents = r.supervisors+s.own, r.agents+s.children
	}
	self := must(statOf(os.Getpid()))
	busy, err := machineTime()
	r.other = busy - r.database - r.supervisors - r.agents - self.own
	return err
}

// stat is a part of what the kernel tells about a process. Children are those that have ended.
type stat struct {
	parent        int
	own, children time.Duration
}

func statOf(pid int) (s stat, err error) {
	raw := must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
	// The name in parentheses may hold anything.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 15 {
		return s, fmt.Errorf("read /proc/%d/stat: only %d fields", pid, len(fields))
	}
	s.parent = must(strconv.Atoi(fields[1]))
	s.own, err = ticks(fields[11:13])
	if err != nil {
		return s, err
	}
	s.children, err = ticks(fields[13:15])
	return s, err
}

// machineTime is what all processors together have worked.
func machineTime() (time.Duration, error) {
	raw := must(os.ReadFile("/proc/stat"))
	line, _, _ := strings.Cut(string(raw), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(f) < 9 {
		return 0, fmt.Errorf("read /proc/stat: %q", line)
	}
	return ticks([]string{f[1], f[2], f[3], f[6], f[7], f[8]})
}

func ticks(fields []string) (time.Duration, error) {
	var sum int64
	for _, f := range fields {
		n := must(strconv.ParseInt(f, 10, 64))
		sum += n
	}
	return time.Duration(sum) * time.Second / 100, nil // USER_HZ is 100 on every Linux that Go runs on
}

// flushRate is how many writes of a database page to the end of a file can be made durable in a second, one after the other.
func (b *bench) flushRate(dir string) (rate float64, err error) {
	file := must(os.CreateTemp(dir, "flush"))
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, 8192)
	begun, n := time.Now(), 0
	for ; time.Since(begun) < 2*time.Second; n++ {
		if _, err := file.Write(page); err != nil {
			return 0, err
		}
		check(file.Sync())
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}

// readWAL counts the frames and the commits in the write-ahead log of SQLite. The salt changes when the log begins from its start again.
func readWAL(path string) (salt uint64, frames, commits int, err error) {
	const header, frameHeader = 32, 24
	raw, err := os.ReadFile(filepath.Clean(path))
	if err != nil || len(raw) < header {
		return 0, 0, 0, err
	}
	page := int(binary.BigEndian.Uint32(raw[8:]))
	salt = binary.BigEndian.Uint64(raw[16:])
	for at := header; at+frameHeader+page <= len(raw); at += frameHeader + page {
		if binary.BigEndian.Uint64(raw[at+8:]) != salt {
			break // of an earlier round
		}
		frames++
		if binary.BigEndian.Uint32(raw[at+4:]) != 0 {
			commits++
		}
	}
	return salt, frames, commits, nil
}
