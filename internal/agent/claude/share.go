package claude

import (
	"bytes"
	"io"
	"os"

	"claudeops/internal/ops"
)

// ownShare takes out of the figures of a resumed run what the conversation had used before, for a CLI that does not tell the
// share apart. Its totals go on from a line that the run before left at the end of the record; without that line they
// begin at zero.
func (d *decoder) ownShare(res *ops.RunResult) {
	if u := d.result.Usage; u != nil {
		res.InputTokens, res.OutputTokens = whole(u.Input), whole(u.Output)
		res.CacheReadTokens, res.CacheWriteTokens = whole(u.CacheRead), whole(u.CacheWrite)
	}
	if res.ReportedUSD == nil || d.spent == nil || !carriesCost(d.before.Path) {
		return
	}
	res.CostUSD = ops.Ptr(max(*res.ReportedUSD-*d.spent, 0))
}

// carriesCost reports whether the record of a conversation ends with the sum of its cost.
func carriesCost(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	const most = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return false
		}
	}
	tail, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return false
	}
	tail = bytes.TrimSpace(tail)
	last := tail[bytes.LastIndexByte(tail, '\n')+1:]
	return bytes.Contains(last, []byte(`"type":"cost-state"`))
}
