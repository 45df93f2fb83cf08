package property

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// GiB is the unit of PVE's allocation syntax "storage:32".
const GiB = 1 << 30

// ParseSize reads a disk size as PVE writes it ("32G", "10.5G", "528K", "4194304"; "iB" may follow the unit) into
// bytes. Units are powers of 1024, no unit means bytes. A size that is not a whole number of bytes is an error.
func ParseSize(s string) (int64, error) {
	number, unit := strings.TrimSuffix(s, "iB"), int64(1)
	hasUnit := false
	if n := len(number); n > 0 {
		if at := strings.IndexByte("KMGT", number[n-1]); at >= 0 {
			hasUnit, unit, number = true, 1<<(10*(at+1)), number[:n-1]
		}
	}
	if strings.HasSuffix(s, "iB") && !hasUnit {
		return 0, fmt.Errorf("parse size %q: iB needs a unit K, M, G or T before it", s)
	}
	whole, fraction, point := strings.Cut(number, ".")
	digits := whole + fraction
	if whole == "" || point && fraction == "" || len(digits) > 40 || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("parse size %q: want a number with an optional unit K, M, G or T", s)
	}
	bytes, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("parse size %q: want a number with an optional unit K, M, G or T", s)
	}
	bytes.Mul(bytes, new(big.Rat).SetInt64(unit))
	if !bytes.IsInt() {
		return 0, fmt.Errorf("parse size %q: not a whole number of bytes", s)
	}
	if !bytes.Num().IsInt64() {
		return 0, fmt.Errorf("parse size %q: too large", s)
	}
	return bytes.Num().Int64(), nil
}

// FormatSize prints bytes the way PVE stores a size: in the largest of K, M, G, T that holds it exactly, else in bytes
// (pve-common JSONSchema.pm format_size).
func FormatSize(bytes int64) string {
	unit := 0
	for bytes != 0 && unit < 4 && bytes%1024 == 0 {
		bytes, unit = bytes/1024, unit+1
	}
	return strconv.FormatInt(bytes, 10) + []string{"", "K", "M", "G", "T"}[unit]
}

// ParseSizeOption is ParseSize for a codec: ok is false for a text that is no size.
func ParseSizeOption(s string) (int64, bool) {
	n, err := ParseSize(s)
	return n, err == nil
}

// FormatGiB prints bytes for the allocation syntax, with as many decimals as are needed.
func FormatGiB(bytes int64) string {
	return strconv.FormatFloat(float64(bytes)/GiB, 'f', -1, 64)
}
