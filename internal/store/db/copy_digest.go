package db

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
)

// digest hashes rows. The same rows give the same hash, whichever database they come from.
type digest struct {
	hash     hash.Hash
	rows     int64
	replaced int64 // texts with bytes that PostgreSQL cannot store
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

// add adds a row of plain values. Each is hashed with its kind and its length, so that different rows never give the same input.
func (d *digest) add(values []any) {
	d.rows++
	var b [9]byte
	for _, v := range values {
		var text string
		switch v := v.(type) {
		case nil:
			b[0] = 'n'
			binary.BigEndian.PutUint64(b[1:], 0)
		case bool:
			b[0] = 'b'
			binary.BigEndian.PutUint64(b[1:], 0)
			if v {
				b[8] = 1
			}
		case int64:
			b[0] = 'i'
			binary.BigEndian.PutUint64(b[1:], uint64(v)) //nolint:gosec // the same bits
		case float64:
			b[0] = 'f'
			binary.BigEndian.PutUint64(b[1:], math.Float64bits(v))
		case []byte:
			text = string(v)
			b[0] = 'y'
			binary.BigEndian.PutUint64(b[1:], uint64(len(text)))
		case string:
			clean, same := storable(v)
			text, _ = clean.(string)
			if !same {
				d.replaced++
			}
			b[0] = 't'
			binary.BigEndian.PutUint64(b[1:], uint64(len(text)))
		default:
			text = fmt.Sprint(v)
			b[0] = '?'
			binary.BigEndian.PutUint64(b[1:], uint64(len(text)))
		}
		d.hash.Write(b[:])
		d.hash.Write([]byte(text))
	}
}

func (d *digest) sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }
