// Command incidents is the benchmark of the supervisor: real services break, scripted models behind the real agent CLIs repair them or do
// worse, and what happened to the machine is compared between contenders. See docs/incidents.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 1 && os.Args[1] == inside {
		err = runInside(ctx, os.Stdin, os.Stdout)
	} else {
		err = runMatrix(ctx, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "incidents:", err)
		os.Exit(1)
	}
}
