// The application of the benchmark: a shop that writes orders to PostgreSQL and puts them into a queue in Redis, and a worker that takes
// them from there and marks them as done. `app web FILE` and `app worker FILE` read their settings from a file of KEY=VALUE lines:
//
//	LISTEN        where the shop answers: host:port (default 127.0.0.1:8082)
//	DATABASE_URL  of PostgreSQL; without it there are no orders
//	REDIS         host:port of Redis; without it there is no queue
//	CACHE_MB      memory that is filled at the start
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	limit   = 2 * time.Second // for one question to PostgreSQL or Redis
	queue   = "orders"
	seenKey = "worker:seen" // the worker writes it whenever it looks into the queue
)

// shop is what both parts share.
type shop struct {
	listen   string
	database string
	redis    string
	cache    []byte
}

func main() {
	if len(os.Args) != 3 {
		say("usage: app web|worker FILE")
		os.Exit(2)
	}
	// Without this, a process that is the first of its container would not end when it is told to.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() { <-stop; os.Exit(0) }()
	if err := run(os.Args[1], os.Args[2]); err != nil {
		say("app: %v", err)
		os.Exit(1)
	}
}

// say writes a line to the log of the container.
func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

func run(part, file string) error {
	s, err := load(file)
	if err != nil {
		return err
	}
	switch part {
	case "web":
		mux := http.NewServeMux()
		mux.HandleFunc("GET /health", s.answer(s.health))
		mux.HandleFunc("GET /status", s.answer(s.status))
		mux.HandleFunc("POST /orders", s.answer(s.order))
		say("the shop answers at %s", s.listen)
		return (&http.Server{Addr: s.listen, Handler: mux, ReadHeaderTimeout: limit}).ListenAndServe()
	case "worker":
		return s.work()
	}
	return fmt.Errorf("unknown part %q", part)
}

// load reads the settings. An unknown one is an error, as in most programs.
func load(file string) (*shop, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	s := &shop{listen: "127.0.0.1:8082"}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "":
		case "LISTEN":
			s.listen = value
		case "DATABASE_URL":
			s.database = value
		case "REDIS":
			s.redis = value
		case "CACHE_MB":
			size, err := strconv.Atoi(value)
			if err != nil {
				return nil, fmt.Errorf("read settings: CACHE_MB: %w", err)
			}
			s.fill(size)
		default:
			return nil, fmt.Errorf("read settings: unknown setting %q in %s", key, file)
		}
	}
	return s, nil
}

// fill uses memory, as a cache does.
func (s *shop) fill(megabytes int) {
	say("filling the cache with %d MB", megabytes)
	s.cache = make([]byte, megabytes<<20)
	for i := 0; i < len(s.cache); i += 4096 {
		s.cache[i] = 1
	}
}

// answer turns a part of the shop into a page.
func (s *shop) answer(part func(context.Context, *http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		text, err := part(ctx, r)
		if err != nil {
			say("%s %s: %v", r.Method, r.URL.Path, err)
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, text)
	}
}

func (s *shop) health(ctx context.Context, _ *http.Request) (string, error) {
	if err := s.query(ctx, func(*pgx.Conn) error { return nil }); err != nil {
		return "", err
	}
	if _, err := s.ask(ctx, "PING"); err != nil {
		return "", err
	}
	return "ok", nil
}

// status says how many orders there are, and what the clock of this container shows.
func (s *shop) status(ctx context.Context, _ *http.Request) (string, error) {
	var orders, done int
	err := s.query(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE done) FROM orders").Scan(&orders, &done)
	})
	if err != nil {
		return "", err
	}
	waiting, err := s.ask(ctx, "LLEN", queue)
	if err != nil {
		return "", err
	}
	seen, err := s.ask(ctx, "GET", seenKey)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("orders %d\ndone %d\nwaiting %s\nworker seen %s\ntime %s", orders, done, waiting, seen, time.Now().Format(time.DateTime)), nil
}

func (s *shop) order(ctx context.Context, r *http.Request) (string, error) {
	var id int
	err := s.query(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "INSERT INTO orders (item) VALUES ($1) RETURNING id", r.FormValue("item")).Scan(&id)
	})
	if err != nil {
		return "", err
	}
	if _, err := s.ask(ctx, "LPUSH", queue, strconv.Itoa(id)); err != nil {
		return "", err
	}
	return fmt.Sprintf("order %d", id), nil
}

// work takes orders from the queue and marks them as done.
func (s *shop) work() error {
	say("the worker waits for orders")
	for {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		id, err := s.workOnce(ctx)
		cancel()
		switch {
		case err != nil:
			return err
		case id != "":
			say("order %s is done", id)
		default:
			<-time.After(200 * time.Millisecond) // between two looks into an empty queue
		}
	}
}

// workOnce does one order, if there is one.
func (s *shop) workOnce(ctx context.Context) (id string, err error) {
	if _, err := s.ask(ctx, "SET", seenKey, time.Now().Format(time.TimeOnly), "EX", "3"); err != nil {
		return "", err
	}
	if id, err = s.ask(ctx, "RPOP", queue); err != nil || id == "" {
		return "", err
	}
	err = s.query(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "UPDATE orders SET done = true WHERE id = $1::int", id)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("order %s: %w", id, err)
	}
	return id, nil
}

// query runs something on a connection of its own, so that a broken one never stays.
func (s *shop) query(ctx context.Context, do func(*pgx.Conn) error) error {
	if s.database == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, s.database)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := do(conn); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}
