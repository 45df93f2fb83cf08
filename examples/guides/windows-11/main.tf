terraform {
  required_providers {
    proxmox = {
      source = "terraform-proxmox/proxmox"
    }
  }
}

provider "proxmox" {} # PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN from the environment

variable "windows_iso" {
  description = "Installation medium of Windows 11."
  type        = string
  default     = "local:iso/windows-11.iso"
}

variable "virtio_iso" {
  description = "Drivers for the virtual disk and network device."
  type        = string
  default     = "local:iso/virtio-win.iso"
}

resource "proxmox_vm" "desktop" {
  node = "pve1"
  name = "desktop-1"

  # What the installer asks for: UEFI with Secure Boot, and a TPM 2.0.
  ostype    = "win11"
  machine   = "q35"
  bios      = "ovmf"
  efi_disk  = { storage = "local-zfs", type = "4m", pre_enrolled_keys = true }
  tpm_state = { storage = "local-zfs", version = "v2.0" }

  cpu    = { type = "x86-64-v2-AES", cores = 4 }
  memory = { size = 8192 }
  scsihw = "virtio-scsi-single"
  agent  = { enabled = true } # comes with the drivers' guest tools

  wait_for = { agent = false } # nothing answers before these are installed

  disks = {
    scsi0 = { storage = "local-zfs", size = "64G", discard = true, ssd = true, iothread = true }
  }
  cdroms = {
    ide0 = { file = var.windows_iso }
    ide2 = { file = var.virtio_iso }
  }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0" } }
  boot_order = ["scsi0", "ide0"]

  # Until Windows and its guest tools are installed, the guest ignores a shutdown request.
  on_destroy = { power_off = "force", timeout = "1m" }
}
