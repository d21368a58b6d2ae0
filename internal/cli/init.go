package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/ops"
)

// starter is the file that init writes.
//
//go:embed starter.yaml
var starter []byte

// schemaFile is the name of the schema in the first line of the starter file.
const schemaFile = "claudeops.schema.json"

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init [FILE]", Short: "Write a commented starter configuration with dry run on", Args: cobra.MaximumNArgs(1),
		Long: `Writes a commented configuration file with dry run on, so that agents change nothing yet. An existing file is never overwritten
(exit 5). FILE defaults to claudeops.yaml in the current folder; use - to print to stdout.`,
		Example: `  claudeops init
  claudeops init /etc/claudeops/claudeops.yaml
  claudeops config schema > claudeops.schema.json    for your editor`,
		RunE: func(_ *cobra.Command, args []string) error {
			path := "claudeops.yaml"
			if len(args) == 1 {
				path = args[0]
			}
			if path == "-" {
				_, err := a.Stdout.Write(starter)
				return err
			}
			if err := writeNew(path, starter); err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "wrote %s; edit it, then run 'claudeops config check --config %s'\n", path, path)
			fmt.Fprintf(a.Stderr, "for completion in your editor, run 'claudeops config schema > %s' in the same folder\n", schemaFile)
			return nil
		},
	}
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, text []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it holds no secret
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write %s: it exists; move it or use another name: %w", path, ops.ErrConflict)
	}
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

func (a *app) configSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file, for editors",
		Example: "  claudeops config schema > " + schemaFile,
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Schema()
			if err != nil {
				return fmt.Errorf("make schema: %w", err)
			}
			_, err = io.WriteString(a.Stdout, string(text)+"\n")
			return err
		},
	}
}
