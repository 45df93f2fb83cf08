# The same twenty VMs, as bpg's arguments are translated.

locals {
  key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"
}

resource "proxmox_vm" "k3s" {
  for_each = { a = 11, b = 12, c = 13, d = 14 }
  name     = "k3s-${each.key}"
  node     = "pve1"
  vmid     = 100 + each.value
  tags     = ["k3s", "prod"]
  onboot   = true
  clone    = { vmid = 9000, full = true }
  agent    = { enabled = true }
  cpu      = { cores = 4, type = "host" }
  memory   = { size = 4096, balloon = 2048 }
  disks    = { scsi0 = { storage = "local-zfs", size = "20G", iothread = true, discard = true } }
  networks = { net0 = { bridge = "vmbr0" } }
  cloud_init = {
    storage      = "local-zfs"
    user         = "ops"
    ssh_keys     = [local.key]
    addresses    = { net0 = { ipv4 = "10.0.0.${each.value}/24", gateway4 = "10.0.0.1" } }
    nameservers  = ["10.0.0.1"]
    searchdomain = "lan"
  }
}

resource "proxmox_vm" "linked" {
  name     = "linked"
  node     = "pve1"
  vmid     = 121
  clone    = { vmid = 9000, full = false, node = "pve1" }
  networks = { net0 = { bridge = "vmbr0" } }
}

resource "proxmox_vm" "example" {
  name        = "test-talos"
  node        = "pve1"
  vmid        = 122
  power_state = "stopped"
  machine     = "q35"
  clone       = { vmid = 9000, full = true, storage = "local-lvm" }
  cpu         = { cores = 2 }
  memory      = { size = 2048 }
  disks       = { scsi0 = { storage = "local-lvm", size = "20G", iothread = true, ssd = true, discard = true } }
  networks    = { net0 = {} } # the template's, not written there either; their state has it all the same
  cloud_init  = { addresses = { net0 = { ipv4 = "192.168.219.32/24", gateway4 = "192.168.219.1" } } }
}

resource "proxmox_vm" "koko" {
  name        = "koko"
  node        = "pve1"
  vmid        = 123
  description = "a home server\nwith two lines"
  on_destroy  = { power_off = "force" }
  agent       = { enabled = true }
  ostype      = "l26"
  cpu         = { cores = 2, type = "x86-64-v2-AES" }
  memory      = { size = 2048, balloon = 2048 }
  disks = {
    scsi0 = { storage = "local-lvm", import_from = "local:import/disk.qcow2", size = "10G", discard = true }
    scsi1 = { storage = "local-zfs", size = "100G", iothread = true }
  }
  networks = { net0 = { bridge = "vmbr0" } }
  cloud_init = {
    storage     = "local-lvm"
    user        = "koko"
    ssh_keys    = [local.key]
    addresses   = { net0 = { ipv4 = "dhcp" } }
    nameservers = ["192.168.0.1", "1.1.1.1"]
  }
}

resource "proxmox_vm" "talos" {
  name        = "talos-k8s-master"
  description = "Managed By Terraform"
  node        = "pve1"
  vmid        = 400
  on_destroy  = { power_off = "force" }
  disks       = { scsi0 = { storage = "local-lvm", import_from = "local:import/disk.qcow2" } }
  ostype      = "l26"
  memory      = { size = 2048 }
  cpu         = { type = "x86-64-v2-AES", cores = 2 }
  networks    = { net0 = { bridge = "vmbr0", model = "virtio" } }
  tpm_state   = { storage = "local-lvm", version = "v2.0" }
}

resource "proxmox_vm" "template" {
  name       = "ubuntu-template"
  vmid       = 10001
  node       = "pve1"
  template   = true
  machine    = "q35"
  bios       = "ovmf"
  efi_disk   = { storage = "local-lvm", type = "4m" }
  disks      = { virtio0 = { storage = "local-lvm", import_from = "local:import/disk.qcow2", size = "20G", iothread = true, discard = true } }
  networks   = { net0 = { bridge = "vmbr0" } }
  cloud_init = { storage = "local-lvm", addresses = { net0 = { ipv4 = "dhcp" } } }
}

resource "proxmox_vm" "windows" {
  name       = "win11"
  node       = "pve1"
  vmid       = 124
  machine    = "q35"
  bios       = "ovmf"
  scsihw     = "virtio-scsi-single"
  boot_order = ["scsi0", "ide0"]
  ostype     = "win11"
  cpu        = { cores = 2, sockets = 2, type = "host", flags = ["+aes"], units = 200, limit = 3 }
  memory     = { size = 8192, balloon = 0 }
  efi_disk   = { storage = "local-zfs", type = "4m", pre_enrolled_keys = true }
  tpm_state  = { storage = "local-zfs", version = "v2.0" }
  disks      = { scsi0 = { storage = "local-zfs", size = "64G", cache = "writeback", iothread = true } }
  cdroms     = { ide0 = { file = "local:iso/debian.iso" } }
  networks   = { net0 = { bridge = "vmbr0" } }
}

resource "proxmox_vm" "router" {
  name = "router"
  node = "pve1"
  vmid = 125
  networks = {
    net0 = { bridge = "vmbr0", tag = 66, mtu = 1400, queues = 2 }
    net1 = { bridge = "vmbr1", trunks = [1, 2, 10], firewall = true, macaddr = "BC:24:11:AA:00:02" }
    net2 = { bridge = "vmbr1", model = "e1000", rate = 12.5, link_down = true }
  }
  startup = { order = 1, up = 30, down = 60 }
}

resource "proxmox_vm" "storage" {
  name = "storage"
  node = "pve1"
  vmid = 126
  disks = {
    scsi0 = {
      storage = "local-lvm", size = "8G", aio = "native", backup = false, replicate = false, serial = "A-1", ssd = true
      throttle = { mbps_rd = 100, mbps_rd_max = 200, iops_wr = 500 }
    }
    virtio1 = { storage = "local", format = "qcow2", size = "4G" }
    sata0   = { storage = "local-zfs", size = "2G", cache = "none" }
  }
  networks = { net0 = { bridge = "vmbr0" } }
}

resource "proxmox_vm" "hardware" {
  name     = "hardware"
  node     = "pve1"
  vmid     = 127
  keyboard = "de"
  tablet   = false
  acpi     = true
  onboot   = false
  hotplug  = ["disk", "network", "usb"]
  cpu      = { cores = 2, sockets = 2, numa = true }
  memory   = { size = 4096 }
  numa_nodes = {
    numa0 = { cpus = "0-1", memory = 2048 }
    numa1 = { cpus = "2-3", memory = 2048 }
  }
  serial   = { serial0 = { device = "socket" } }
  vga      = { type = "qxl", memory = 32 }
  rng      = { source = "/dev/urandom" }
  watchdog = { model = "i6300esb", action = "reset" }
  audio    = { device = "intel-hda", driver = "spice" }
  smbios   = { manufacturer = "Example", product = "Machine", serial = "4711" }
  disks    = { scsi0 = { storage = "local-lvm", size = "8G" } }
}

resource "proxmox_vm" "kept" {
  name          = "kept"
  node          = "pve1"
  vmid          = 128
  description   = "must not go"
  pool          = "web"
  protection    = true
  tags          = ["web", "db"]
  reboot_policy = "never"
  on_destroy    = { purge = false, timeout = "90s" }
  timeouts      = { create = "10m" }
  disks         = { virtio0 = { storage = "local-lvm", size = "8G" } }
  networks      = { net0 = { bridge = "vmbr0" } }
}

resource "proxmox_vm" "devices" {
  name     = "devices"
  node     = "pve1"
  vmid     = 129
  machine  = "q35"
  pci      = { hostpci0 = { mapping = "gpu", pcie = true } }
  usb      = { usb0 = { mapping = "stick", usb3 = true } }
  virtiofs = { virtiofs0 = { dirid = "share" } }
  disks    = { scsi0 = { storage = "local-lvm", size = "8G" } }
}

resource "proxmox_vm" "elsewhere" {
  name     = "elsewhere"
  node     = "pve2"
  vmid     = 130
  disks    = { scsi0 = { storage = "local-lvm", size = "8G" } }
  networks = { net0 = { bridge = "vmbr0" } }
}

resource "proxmox_vm" "second" {
  vmid        = 131
  name        = "second"
  node        = "pve1"
  description = "of the second kind"
  tags        = ["new"]
  on_destroy  = { power_off = "force" }
  cpu         = { cores = 2, type = "host" }
  vga         = { type = "std" }
}

# Was proxmox_vm.short there, too: the address has to be another one.
resource "proxmox_vm" "third" {
  vmid       = 132
  name       = "short"
  node       = "pve2"
  on_destroy = { power_off = "force" }
  timeouts   = { create = "15m" }
}

resource "proxmox_vm" "cloned_long" {
  vmid  = 133
  node  = "pve1"
  name  = "cloned-long"
  clone = { vmid = 9000, full = true }
  cpu   = { cores = 4 }
}

resource "proxmox_vm" "cloned_short" {
  vmid       = 134
  node       = "pve1"
  name       = "cloned-short"
  tags       = ["clone"]
  clone      = { vmid = 9000, node = "pve1", storage = "local-lvm", full = true }
  memory     = { size = 3072 }
  networks   = { net0 = { bridge = "vmbr1", tag = 7 } }
  disks      = { scsi0 = { storage = "local-lvm", size = "6G" } }
  on_destroy = { power_off = "force" }
}
