package state

import (
	"fmt"
	"math/rand/v2"
)

// random is the world's own source: the same world made in the same way draws the same values.
func (w *World) random() *rand.Rand {
	if w.rng == nil {
		w.rng = rand.New(rand.NewPCG(0x70766573, 0x696d))
	}
	return w.rng
}

// UUID draws a version 4 UUID.
func (w *World) UUID() string {
	a, b := w.random().Uint64(), w.random().Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		uint32(a>>32), uint16(a>>16), uint16(a)&0x0fff, 0x8000|uint16(b>>48)&0x3fff, b&0xffffffffffff)
}

// MAC draws a hardware address with Proxmox's prefix, upper case (since PVE 8.1; pve-common Tools.pm random_ether_addr).
func (w *World) MAC() string {
	r := w.random().Uint32()
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", byte(r>>16), byte(r>>8), byte(r))
}
