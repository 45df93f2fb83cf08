# The same twenty VMs, as Telmate's arguments are translated.

resource "proxmox_vm" "k3s_master" {
  count       = 5
  node        = "pve1"
  name        = "k3s-master-0${count.index + 1}"
  description = "Cloud Ubuntu 22.04"
  onboot      = true
  clone       = { name = "template", full = true }
  ostype      = "l26"
  scsihw      = "virtio-scsi-single"
  boot_order  = ["scsi0"]
  cpu         = { type = "host", sockets = 1, cores = 2 }
  memory      = { size = 15360, balloon = 0 }
  disks       = { scsi0 = { storage = "local-lvm", size = "20G", ssd = true } }
  networks    = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init = {
    storage   = "local-lvm"
    slot      = "ide3"
    addresses = { net0 = { ipv4 = "10.0.0.1${count.index + 1}/24", gateway4 = "10.0.0.1" } }
  }
}

resource "proxmox_vm" "k8s_master" {
  count       = 3
  node        = "pve1"
  name        = "tf-k8s-master-0${count.index + 1}"
  description = "Managed by Terraform."
  onboot      = true
  clone       = { name = "template", full = true }
  scsihw      = "virtio-scsi-pci"
  hotplug     = ["network", "cpu", "memory", "disk"]
  cpu         = { type = "host", sockets = 1, cores = 1, numa = true }
  memory      = { size = 1024, balloon = 0 }
  agent       = { enabled = true }
  disks       = { scsi0 = { storage = "local", size = "16G", format = "qcow2", iothread = true, cache = "writeback" } }
  networks    = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init  = { addresses = { net0 = { ipv4 = "dhcp", ipv6 = "dhcp" } } }
}

resource "proxmox_vm" "controlplane" {
  count    = 1
  node     = "pve1"
  vmid     = 521
  name     = "control-plane-${count.index}"
  clone    = { name = "template", full = true }
  ostype   = "l26"
  onboot   = false
  scsihw   = "virtio-scsi-pci"
  cpu      = { type = "host", flags = ["+aes"], sockets = 1, cores = 4 }
  memory   = { size = 4096 }
  vga      = { type = "serial0" }
  serial   = { serial0 = { device = "socket" } }
  disks    = { scsi0 = { storage = "local-zfs", size = "40G", cache = "writethrough", ssd = true, backup = false } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0", firewall = false } }
  cloud_init = {
    storage   = "local-zfs"
    addresses = { net0 = { ipv4 = "10.0.1.21/24", gateway4 = "10.0.1.1" } }
  }
}

resource "proxmox_vm" "worker" {
  for_each = { blue = 0, green = 1, red = 2, white = 3 }
  nodes    = ["pve1", "pve2"]
  name     = "worker-${each.key}"
  tags     = ["k8s", "worker"]
  clone    = { vmid = 9000, full = true }
  scsihw   = "virtio-scsi-single"
  cpu      = { type = "x86-64-v2-AES", sockets = 2, cores = 2, vcpus = 3, limit = 1.5, units = 200 }
  memory   = { size = 4096, balloon = 2048 }
  agent    = { enabled = true }
  disks = {
    scsi0 = { storage = "local-lvm", size = "32G", discard = true, iothread = true, ssd = true }
    scsi1 = {
      storage = "local-lvm", size = "100G", backup = false, replicate = false, serial = "D-1"
      throttle = { mbps_rd = 100, mbps_rd_max = 200, iops_wr = 500 }
    }
  }
  networks = {
    net0 = { model = "virtio", bridge = "vmbr0" }
    net1 = { model = "virtio", bridge = "vmbr1", tag = 66, firewall = true, mtu = 1400, queues = 2, rate = 12 }
  }
  boot_order = ["scsi0", "net0"]
  cloud_init = {
    storage      = "local-lvm"
    user         = "ops"
    ssh_keys     = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
    nameservers  = ["10.0.0.1", "1.1.1.1"]
    searchdomain = "lan"
    addresses    = { net0 = { ipv4 = "10.0.2.3${each.value}/24", gateway4 = "10.0.2.1" } }
  }
  reboot_policy = "never"
  timeouts      = { create = "45m" }
}

resource "proxmox_vm" "linked" {
  node     = "pve1"
  vmid     = 541
  name     = "linked"
  clone    = { name = "template", full = false }
  scsihw   = "virtio-scsi-single"
  memory   = { size = 2048 }
  disks    = { scsi0 = { storage = "local-zfs", size = "2G" } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
}

resource "proxmox_vm" "windows" {
  node        = "pve1"
  name        = "win11"
  power_state = "stopped"
  ostype      = "win11"
  bios        = "ovmf"
  machine     = "q35"
  scsihw      = "virtio-scsi-single"
  tablet      = false
  cpu         = { type = "host", cores = 4 }
  memory      = { size = 8192, balloon = 0 }
  efi_disk    = { storage = "local-zfs", type = "4m", pre_enrolled_keys = true }
  tpm_state   = { storage = "local-zfs", version = "v2.0" }
  disks       = { scsi0 = { storage = "local-zfs", size = "64G", cache = "writeback", iothread = true } }
  cdroms      = { ide0 = { file = "local:iso/debian.iso" } }
  networks    = { net0 = { model = "e1000", bridge = "vmbr0" } }
  boot_order  = ["ide0", "scsi0"]
}

resource "proxmox_vm" "devices" {
  node     = "pve1"
  name     = "devices"
  machine  = "q35"
  bios     = "seabios"
  scsihw   = "virtio-scsi-pci"
  cpu      = { type = "host", cores = 2 }
  memory   = { size = 4096 }
  disks    = { virtio0 = { storage = "local-lvm", size = "8G" } }
  pci      = { hostpci0 = { mapping = "gpu", pcie = true } }
  usb      = { usb0 = { mapping = "stick", usb3 = true } }
  rng      = { source = "/dev/urandom", max_bytes = 1024, period = 1000 }
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
}

resource "proxmox_vm" "database" {
  node       = "pve2"
  name       = "database"
  pool       = "web"
  tags       = ["db", "prod"]
  protection = true
  onboot     = true
  startup    = { order = 1, up = 30, down = 60 }
  ha         = { state = "started" }
  scsihw     = "virtio-scsi-single"
  cpu        = { type = "host", sockets = 2, cores = 2, numa = true }
  memory     = { size = 4096, balloon = 0 }
  smbios     = { family = "Rack", manufacturer = "Example", serial = "4711" }
  disks      = { scsi0 = { storage = "shared-nfs", size = "16G", format = "qcow2", aio = "native" } }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0" } }
}

# sata1 belongs to another tool: a slot that the configuration does not name is left alone.
resource "proxmox_vm" "pxe" {
  for_each   = toset(["pxe-a", "pxe-b", "pxe-c"])
  node       = "pve2"
  name       = each.key
  cpu        = { type = "kvm64", cores = 1 }
  memory     = { size = 1024 }
  disks      = { sata0 = { storage = "local-zfs", size = "4G" } }
  networks   = { net0 = { model = "vmxnet3", bridge = "vmbr0" } }
  boot_order = ["net0", "sata0"]
}
