package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/store"
)

func (a *app) auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Check that no audit record was changed or removed: verify"}
	c.AddCommand(a.auditVerify())
	return c
}

func (a *app) auditVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Check the chain of audit records; exit 1 and the first broken record if it is not whole",
		Long: `Every audit record holds the hash of the record before it. This command computes all hashes again and compares them. Records from
before the upgrade to this version are not part of the chain, and records removed by retention no longer are. It prints the hash of the
newest record. Keep it in another place to be able to prove later that nobody has written the whole chain again. It opens the database of
the daemon, so it runs on its machine and does not take --server.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.reading(c.Context(), func(s *store.Store, _ *config.Config) error {
				report, err := s.VerifyAudit(c.Context())
				if err != nil {
					return err
				}
				err = a.printOne(report, func(w io.Writer) {
					switch {
					case report.Problem != "":
					case report.Records == 0:
						fmt.Fprintln(w, "No audit records yet.")
					default:
						fmt.Fprintf(w, "%s, from %d to %d, form a whole chain.\nHash of the newest: %s\n",
							plural(report.Records, "audit record", "audit records"), report.FirstID, report.LastID, report.Hash)
					}
				})
				if err != nil || report.Problem == "" {
					return err
				}
				when := ""
				if report.BrokenAt != nil {
					when = " of " + stamp(report.BrokenAt)
				}
				return &codeError{exitError, fmt.Errorf("audit record %d%s: %s", report.BrokenID, when, report.Problem)}
			})
		},
	}
}
