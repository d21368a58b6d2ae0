package web

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"claudeops/internal/store"
)

// costsCSV responds with the costs as a CSV file. Unknown values are empty.
func (s *server) costsCSV(w http.ResponseWriter, r *http.Request) {
	q, err := readCostQuery(r)
	if err != nil {
		s.errorPage(w, r, http.StatusNotFound, "Costs are grouped by tier, model, service or trigger, over 7, 30 or 90 days.")
		return
	}
	rows, err := s.Store.Costs(r.Context(), q.by, store.CostFilter{Environment: q.environment, Since: q.since(s.Clock())})
	if err != nil {
		s.fail(w, r, "costs", err)
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="claudeops-costs-by-%s.csv"`, q.by))
	w.Header().Set("Cache-Control", "no-store")
	out := csv.NewWriter(w)
	_ = out.Write([]string{
		"day_utc", string(q.by), "est_cost_usd", "sessions", "sessions_with_cost",
		"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
	})
	for _, row := range rows {
		_ = out.Write([]string{
			row.Day.Format("2006-01-02"), csvSafe(row.Key), number(row.USD), strconv.Itoa(row.Sessions), strconv.Itoa(row.Reported),
			number(row.InputTokens), number(row.OutputTokens), number(row.CacheReadTokens), number(row.CacheWriteTokens),
		})
	}
	out.Flush() // the client may have disconnected
}

func number[T int64 | float64](n *T) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(float64(*n), 'f', -1, 64)
}

// csvSafe prevents a spreadsheet from reading a name as a formula.
func csvSafe(text string) string {
	text = firstLine(text, 200)
	if strings.ContainsAny(text[:min(1, len(text))], "=+-@\t") {
		return "'" + text
	}
	return text
}
