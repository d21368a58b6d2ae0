// The application of the benchmark: a web server that counts orders in PostgreSQL and puts them into a queue in Redis, and a worker that
// takes them from there. `app web` and `app worker` read their addresses from the environment.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: app web | worker")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func run(part string) error {
	switch part {
	case "web":
		mux := http.NewServeMux()
		mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
			defer cancel()
			conn, err := pgx.Connect(ctx, env("DATABASE_URL", "postgres://postgres@127.0.0.1:5432/postgres"))
			if err != nil {
				http.Error(w, "database: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
			defer func() { _ = conn.Close(ctx) }()
			fmt.Fprintln(w, "ok")
		})
		server := &http.Server{Addr: env("LISTEN", "127.0.0.1:8082"), Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		return server.ListenAndServe()
	default:
		return fmt.Errorf("unknown part %q", part)
	}
}
