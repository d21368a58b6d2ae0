// Command licenses collects the licences of everything that the program contains and others wrote: the linked modules, the Go
// standard library and the bundled files of the pages. It fails if one has no licence or one that is not allowed.
//
//	go run ./test/licenses          writes THIRD_PARTY_LICENSES
//	go run ./test/licenses -check   fails if that file is not up to date
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
)

const file = "THIRD_PARTY_LICENSES"

func main() {
	check := flag.Bool("check", false, "only check that "+file+" is up to date")
	flag.Parse()
	if err := run(context.Background(), *check); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	text, err := collect(ctx, ".")
	if err != nil {
		return err
	}
	if !check {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // a document
			return fmt.Errorf("write licences: %w", err)
		}
		return nil
	}
	stored, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read licences: %w", err)
	}
	if string(stored) != text {
		return errors.New(file + " is out of date: run make licenses")
	}
	return nil
}
