resource "proxmox_vm" "web" {
  node = "pve1"
  name = "web-1"
  tags = ["prod"]

  machine = "q35"
  bios    = "ovmf"
  ostype  = "l26"
  scsihw  = "virtio-scsi-single"

  cpu    = { type = "x86-64-v2-AES", cores = 4 }
  memory = { size = 4096, balloon = 2048 } # MiB

  efi_disk = { storage = "local-zfs", type = "4m", pre_enrolled_keys = true }
  disks = {
    scsi0 = { storage = "local-zfs", size = "32G", discard = true, iothread = true }
    scsi1 = { storage = "local-lvm", size = "100G" }
  }
  cdroms = {
    ide2 = { file = "local:iso/debian.iso" }
  }
  networks = {
    net0 = { model = "virtio", bridge = "vmbr0", tag = 10 }
  }
  boot_order = ["scsi0", "ide2", "net0"]
}

output "macs" {
  value = { for slot, device in proxmox_vm.web.networks : slot => device.macaddr }
}
