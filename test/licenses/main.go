// Command licenses collects the licences of everything that the program contains and others wrote: the linked modules, the Go
// standard library and the bundled files of the pages. It fails if one has no licence or one that is not allowed.
//
//	go run ./test/licenses          writes THIRD_PARTY_LICENSES
//	go run ./test/licenses -check   fails if that file is not up to date
//	go run ./test/licenses -sbom FILE -version V -date TIME OS/ARCH=PROGRAM...
//	                                writes what is in these programs as a CycloneDX document
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
	sbom := flag.String("sbom", "", "write a CycloneDX document of the programs that are named to this file")
	version := flag.String("version", "", "the version of the programs")
	date := flag.String("date", "", "the time in the CycloneDX document")
	flag.Parse()
	err := run(context.Background(), *check, *sbom, release{*version, *date, flag.Args()})
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool, sbom string, of release) error {
	all, err := contents(ctx, ".")
	if err != nil {
		return err
	}
	if sbom != "" {
		text, err := of.bill(".", all)
		if err != nil {
			return err
		}
		return write(sbom, text)
	}
	text, err := document(all)
	if err != nil {
		return err
	}
	if !check {
		return write(file, []byte(text))
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

func write(name string, text []byte) error {
	if err := os.WriteFile(name, text, 0o644); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write licences: %w", err)
	}
	return nil
}
