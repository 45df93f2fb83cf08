package fastpath

import (
	"encoding/binary"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// The first bytes of MessagePack (github.com/msgpack/msgpack, spec.md) that Terraform's values use.
const (
	packNil       = 0xc0
	packFalse     = 0xc2
	packTrue      = 0xc3
	packFloat64   = 0xcb
	packUint8     = 0xcc // then 16, 32 and 64 bits
	packInt8      = 0xd0 // likewise
	packExtension = 0xd4 // of a type and one byte
)

// counted is the header of a value with a length: the byte for a few, how many are a few, and the bytes for lengths of
// 8, 16 and 32 bits, 0 for none.
type counted struct {
	few, limit            byte
	byte8, byte16, byte32 byte
}

var (
	packText   = counted{few: 0xa0, limit: 31, byte8: 0xd9, byte16: 0xda, byte32: 0xdb}
	packList   = counted{few: 0x90, limit: 15, byte16: 0xdc, byte32: 0xdd}
	packObject = counted{few: 0x80, limit: 15, byte16: 0xde, byte32: 0xdf}
)

func (c counted) header(to []byte, length int) []byte {
	n := uint32(length) //nolint:gosec // no message is that long
	switch {
	case n <= uint32(c.limit):
		return append(to, c.few|byte(n&math.MaxUint8))
	case n <= math.MaxUint8 && c.byte8 != 0:
		return append(to, c.byte8, byte(n&math.MaxUint8))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(to, c.byte16), uint16(n&math.MaxUint16))
	default:
		return binary.BigEndian.AppendUint32(append(to, c.byte32), n)
	}
}

// pack writes a value that fits, the keys of objects and maps sorted, as Terraform does. A value of another type
// becomes an empty value of the place's type.
func (p *place) pack(to []byte, v tftypes.Value) []byte {
	switch {
	case !v.IsKnown():
		return append(to, packExtension, 0, 0) // the form that Terraform gives unknowns
	case v.IsNull():
		return append(to, packNil)
	}
	switch p.form {
	case text:
		var s string
		_ = v.As(&s)
		return packString(to, s)
	case truth:
		var is bool
		if _ = v.As(&is); is {
			return append(to, packTrue)
		}
		return append(to, packFalse)
	case whole, decimal:
		number := new(big.Float)
		_ = v.As(&number)
		return packNumber(to, number)
	case object:
		values := map[string]tftypes.Value{}
		_ = v.As(&values)
		to = packObject.header(to, len(p.names))
		for i, name := range p.names {
			to = p.children[i].pack(packString(to, name), values[name])
		}
	case dictionary:
		values := map[string]tftypes.Value{}
		_ = v.As(&values)
		to = packObject.header(to, len(values))
		for _, name := range slices.Sorted(maps.Keys(values)) {
			to = p.element.pack(packString(to, name), values[name])
		}
	case list, set:
		var values []tftypes.Value
		_ = v.As(&values)
		to = packList.header(to, len(values))
		for _, value := range values {
			to = p.element.pack(to, value)
		}
	}
	return to
}

func packString(to []byte, s string) []byte { return append(packText.header(to, len(s)), s...) }

// packNumber writes a number as terraform-plugin-go does: whole ones of 64 bits as such, exact floats as such, and all
// others as decimal text.
func packNumber(to []byte, number *big.Float) []byte {
	if n, accuracy := number.Int64(); accuracy == big.Exact {
		return packInt(to, n)
	}
	if f, accuracy := number.Float64(); accuracy == big.Exact && !number.IsInt() {
		return binary.BigEndian.AppendUint64(append(to, packFloat64), math.Float64bits(f))
	}
	return packString(to, number.Text('f', -1))
}

func packInt(to []byte, n int64) []byte {
	switch {
	case n >= -32 && n <= math.MaxInt8:
		return append(to, byte(n)) //nolint:gosec // two's complement is the format
	case n >= 0:
		return packUint(to, uint64(n))
	case n >= math.MinInt8:
		return append(to, packInt8, byte(n)) //nolint:gosec // as above
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(to, packInt8+1), uint16(n)) //nolint:gosec // as above
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(to, packInt8+2), uint32(n)) //nolint:gosec // as above
	default:
		return binary.BigEndian.AppendUint64(append(to, packInt8+3), uint64(n)) //nolint:gosec // as above
	}
}

func packUint(to []byte, n uint64) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(to, packUint8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(to, packUint8+1), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(to, packUint8+2), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(to, packUint8+3), n)
	}
}
